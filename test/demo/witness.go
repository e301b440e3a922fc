package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/lab"
)

// witness watches nodes and pods by itself and remembers every breach of a promise.
type witness struct {
	audit *cluster.Audit

	mu       sync.Mutex
	ceilings map[string]int // of the tiers, for the reboots
	nodes    map[string]*corev1.Node
	released map[types.UID]bool // protected pods that the story itself ends
	breaches []string
	most     map[string]int
}

// watch begins to look. It returns when it has seen everything that is there.
func watchCluster(ctx context.Context, client kubernetes.Interface, audit *cluster.Audit) *witness {
	w := &witness{
		audit: audit, ceilings: map[string]int{}, nodes: map[string]*corev1.Node{}, released: map[types.UID]bool{}, most: map[string]int{},
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	handler := func(see func(any)) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }, DeleteFunc: see}
	}
	_, _ = factory.Core().V1().Nodes().Informer().AddEventHandler(handler(w.seeNode))
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(handler(w.seePod))
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return w
}

// expect sets how many nodes of a tier may be at work for the kernel's rollout at once.
func (w *witness) expect(tier string, ceiling int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ceilings[tier] = ceiling
}

// end allows a protected pod to go: the story ends its training run.
func (w *witness) end(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released[uid] = true
}

func (w *witness) seeNode(o any) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.Name] = n
	for tier, ceiling := range w.ceilings {
		busy := w.busyIn(tier)
		w.most[tier] = max(w.most[tier], len(busy))
		if len(busy) > ceiling {
			w.breach("tier %s: %d nodes are out of service or at work, at most %d may be: %s", tier, len(busy), ceiling, strings.Join(busy, " "))
		}
	}
}

// busyIn counts for itself: nodes that we hold cordoned, or whose record for the kernel is open.
func (w *witness) busyIn(tier string) []string {
	var busy []string
	for _, name := range sortedKeys(w.nodes) {
		n := w.nodes[name]
		if n.Labels["tier"] != tier {
			continue
		}
		_, owned := n.Annotations[nwv1.CordonKey(lab.Kernel)]
		rec, found, err := noderecord.Decode(n.Annotations[fleetv1.RecordKey(lab.Kernel)], n.UID)
		if owned || err == nil && found && rec.IsOpen() {
			busy = append(busy, name)
		}
	}
	return busy
}

func (w *witness) seePod(o any) {
	p, ok := o.(*corev1.Pod)
	if !ok || p.Labels[lab.ProtectedLabel] != lab.ProtectedValue {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.released[p.UID] && (p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed) {
		w.breach("the protected pod %s/%s was disturbed", p.Namespace, p.Name)
	}
}

func (w *witness) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, b := range w.breaches {
		if b == text {
			return
		}
	}
	w.breaches = append(w.breaches, text)
}

// verdict is every breach that was seen, here or in the API server's own request log.
func (w *witness) verdict() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	errs := make([]error, 0, len(w.breaches))
	for _, b := range w.breaches {
		errs = append(errs, errors.New(b))
	}
	evictions, err := w.audit.Events(cluster.Match{Resource: "pods/eviction"})
	if err != nil {
		errs = append(errs, err)
	}
	for _, e := range evictions {
		if strings.HasPrefix(e.Name, lab.TrainingPod) {
			errs = append(errs, fmt.Errorf("an eviction of the protected pod %s/%s was asked for", e.Namespace, e.Name))
		}
	}
	return errors.Join(errs...)
}

// evictions counts, in the API server's own request log, how many were asked for and how many a budget refused.
func (w *witness) evictions() (asked, refused int, err error) {
	events, err := w.audit.Events(cluster.Match{Resource: "pods/eviction"})
	for _, e := range events {
		asked++
		if e.Code == http.StatusTooManyRequests {
			refused++
		}
	}
	return asked, refused, err
}

// mostAtOnce is the highest number of busy nodes that was seen in a tier.
func (w *witness) mostAtOnce(tier string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most[tier]
}
