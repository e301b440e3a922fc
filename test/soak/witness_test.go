package soak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

const (
	// lag is how long a sighting waits for those with a lower resource version that come over another watch.
	lag = 3 * time.Second
	// outlived is how long a budget that was replaced may still be what an admission was decided by: watches are delayed.
	outlived = 15 * time.Second
	// joining is how many nodes may have gone since a percentage was taken of them.
	joining = 3
)

// sighting is one event of a watch, reduced to what counts.
type sighting struct {
	version uint64
	at      time.Time
	apply   func(w *witness)
}

// span is a budget and when it held.
type span struct {
	most        int
	from, until time.Time
}

// seenNode is a node as it is at one moment.
type seenNode struct {
	name    string
	pool    string
	owners  []string
	records map[string]noderecord.Record
}

// witness checks the invariants for itself. Sightings are taken in by watches and judged by check, in the order of their
// resource versions, which one etcd counts over all kinds.
type witness struct {
	s *stage

	mu    sync.Mutex
	queue []sighting

	judged   uint64 // the newest version that was judged
	late     int
	seen     int
	budgets  map[string]map[string][]span
	nodes    map[types.UID]seenNode
	rollouts map[string]fleetv1.LedgerRollout
	pods     podWitness
	log      requestWitness
	breaches []string
}

// newWitness watches from now on.
func newWitness(s *stage) *witness {
	w := witnessOf(s)
	watching, err := client.NewWithWatch(s.c.Config(), client.Options{Scheme: s.admin.Scheme()})
	require.NoError(s.t, err)
	w.watch(watching, &corev1.NodeList{}, w.seeNode)
	w.watch(watching, &corev1.PodList{}, w.pods.see, client.InNamespace(namespace))
	w.watch(watching, &fleetv1.LedgerList{}, w.seeLedger)
	return w
}

// witnessOf has seen nothing yet but the budgets.
func witnessOf(s *stage) *witness {
	w := &witness{
		s: s, budgets: map[string]map[string][]span{}, nodes: map[types.UID]seenNode{}, rollouts: map[string]fleetv1.LedgerRollout{},
		pods: newPodWitness(), log: newRequestWitness(),
	}
	for _, name := range wrights {
		w.budgets[name] = map[string][]span{}
	}
	w.widen(s)
	return w
}

// watch takes in every change of a kind from now on. see reduces an event to what is applied when its turn comes.
func (w *witness) watch(c client.WithWatch, list client.ObjectList, see func(watch.Event) func(*witness), o ...client.ListOption) {
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(w.s.t, c.List(ctx, list, o...))
	again := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), append(o, &client.ListOptions{Raw: &raw})...)
	}}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), again)
	require.NoError(w.s.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			w.take(e, see)
		}
	}()
	w.s.t.Cleanup(func() { cancel(); <-done })
}

func (w *witness) take(e watch.Event, see func(watch.Event) func(*witness)) {
	o, ok := e.Object.(client.Object)
	if !ok {
		w.put(sighting{at: time.Now(), apply: func(w *witness) { w.breach("a watch of the witness broke: %v", e.Object) }})
		return
	}
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		w.put(sighting{at: time.Now(), apply: func(w *witness) { w.breach("resource version %q is not a number", o.GetResourceVersion()) }})
		return
	}
	w.put(sighting{version, time.Now(), see(e)})
}

func (w *witness) put(one sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, one)
}

// ripe are the sightings whose order is certain, in order.
func (w *witness) ripe(before time.Time) []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ripe, rest []sighting
	for _, one := range w.queue {
		if one.at.Before(before) {
			ripe = append(ripe, one)
		} else {
			rest = append(rest, one)
		}
	}
	w.queue = rest
	slices.SortFunc(ripe, func(a, b sighting) int { return int(int64(a.version) - int64(b.version)) })
	return ripe
}

// check judges everything up to lag ago.
func (w *witness) check(step int) {
	w.s.t.Helper()
	for _, one := range w.ripe(time.Now().Add(-lag)) {
		if one.version < w.judged {
			w.late++
		}
		w.judged = max(w.judged, one.version)
		w.seen++
		w.pods.now, w.log.now = one.at, one.at
		one.apply(w)
	}
	w.checkRequests()
	w.checkForeign()
	w.s.faults.mu.Lock()
	w.breaches = append(w.breaches, w.s.faults.doubled...)
	w.s.faults.doubled = nil
	w.s.faults.mu.Unlock()
	for _, b := range w.breaches {
		w.s.t.Errorf("seed %d, step %d: %s", w.s.o.seed, step, b)
	}
	w.breaches = nil
}

func (w *witness) breach(format string, args ...any) {
	w.breaches = append(w.breaches, fmt.Sprintf(format, args...))
}

// widen lets the budgets that are about to be written count from now on.
func (w *witness) widen(s *stage) {
	now := time.Now()
	for _, name := range wrights {
		for compartment, most := range s.ceilings(name) {
			spans := w.budgets[name][compartment]
			if len(spans) > 0 && spans[len(spans)-1].most == most {
				continue
			}
			w.budgets[name][compartment] = append(spans, span{most: most, from: now})
		}
	}
}

// narrow ends the budgets before the newest: those who decide need a moment to see it.
func (w *witness) narrow(*stage) {
	now := time.Now()
	for _, compartments := range w.budgets {
		for _, spans := range compartments {
			for i := range spans[:len(spans)-1] {
				if spans[i].until.IsZero() {
					spans[i].until = now.Add(outlived)
				}
			}
		}
	}
}

// allowed is how many nodes of a compartment could be admitted at a time.
func (w *witness) allowed(name, compartment string, at time.Time) int {
	most := 0
	for _, s := range w.budgets[name][compartment] {
		if !s.from.After(at) && (s.until.IsZero() || s.until.After(at)) {
			most = max(most, s.most)
		}
	}
	if name != wrightExtra {
		return most
	}
	n := joining
	for _, node := range w.nodes {
		if node.pool == "b" {
			n++
		}
	}
	return max(1, n*most/100)
}

// newest says since when the budget holds.
func (w *witness) newest(name, compartment string, at time.Time) string {
	spans := w.budgets[name][compartment]
	if len(spans) == 0 {
		return ""
	}
	return fmt.Sprintf(" since %s", at.Sub(spans[len(spans)-1].from).Round(time.Millisecond))
}

func (w *witness) seeNode(e watch.Event) func(*witness) {
	n := e.Object.(*corev1.Node)
	uid := n.UID
	if e.Type == watch.Deleted {
		return func(w *witness) { delete(w.nodes, uid) }
	}
	now := seenNode{name: n.Name, pool: n.Labels[poolLabel], records: map[string]noderecord.Record{}}
	for key, value := range n.Annotations {
		if name, ok := strings.CutPrefix(key, nwv1.CordonPrefix); ok {
			now.owners = append(now.owners, name)
		}
		if name, ok := strings.CutPrefix(key, fleetv1.RecordPrefix); ok {
			r, found, err := noderecord.Decode(value, uid)
			if err == nil && found {
				now.records[name] = noderecord.Record{
					NodeWright: r.NodeWright, Compartment: r.Compartment, Round: r.Round, Batch: r.Batch, Outcome: r.Outcome,
				}
			}
		}
	}
	return func(w *witness) { w.judgeNode(uid, now) }
}

// judgeNode wants no more nodes cordoned by us than the Fleet allows.
func (w *witness) judgeNode(uid types.UID, now seenNode) {
	before := w.nodes[uid]
	w.nodes[uid] = now
	if len(now.owners) == 0 || len(before.owners) > 0 {
		return
	}
	var cordoned []string
	for _, n := range w.nodes {
		if len(n.owners) > 0 {
			cordoned = append(cordoned, n.name)
		}
	}
	slices.Sort(cordoned)
	if len(cordoned) > w.s.cap() {
		w.breach("%d nodes are cordoned by us, the Fleet allows %d: %s", len(cordoned), w.s.cap(), strings.Join(cordoned, " "))
	}
}

func (w *witness) seeLedger(e watch.Event) func(*witness) {
	l := e.Object.(*fleetv1.Ledger).DeepCopyObject().(*fleetv1.Ledger)
	at := time.Now()
	return func(w *witness) { w.judgeLedger(l.Spec, at) }
}

// judgeLedger counts the holders of each compartment that this write admits to.
func (w *witness) judgeLedger(next fleetv1.LedgerSpec, at time.Time) {
	for _, name := range slices.Sorted(maps.Keys(next.Rollouts)) {
		roll, old := next.Rollouts[name], w.rollouts[name]
		fresh := map[string]bool{}
		for _, i := range roll.Intents {
			if !i.Withdrawn && !slices.ContainsFunc(old.Intents, func(o fleetv1.LedgerIntent) bool { return sameIntent(o, i) }) {
				fresh[i.Compartment] = true
				w.judgeHalt(name, old, roll, i)
			}
		}
		for compartment := range fresh {
			holders := w.holders(name, compartment, roll)
			if most := w.allowed(name, compartment, at); len(holders) > most {
				w.breach("%s, compartment %s: %d nodes hold slots, %d may%s: %s", name, compartment, len(holders), most,
					w.newest(name, compartment, at), strings.Join(slices.Sorted(maps.Values(holders)), " "))
			}
		}
	}
	w.rollouts = next.Rollouts
}

func sameIntent(a, b fleetv1.LedgerIntent) bool {
	return a.NodeUID == b.NodeUID && a.Round == b.Round && a.Order == b.Order
}

func (w *witness) judgeHalt(name string, old, next fleetv1.LedgerRollout, i fleetv1.LedgerIntent) {
	if i.Round == old.Round && old.UID == next.UID && old.Resumed == next.Resumed && old.Compartments[i.Compartment].Halt != nil {
		w.breach("%s admits %s although compartment %s is halted", name, i.Node, i.Compartment)
	}
}

// holders are the nodes that are at work or cordoned in a compartment, and those that this ledger admits.
func (w *witness) holders(name, compartment string, roll fleetv1.LedgerRollout) map[types.UID]string {
	out := map[types.UID]string{}
	for uid, n := range w.nodes {
		r := n.records[name]
		if r.NodeWright == roll.UID && r.Compartment == compartment && (r.IsOpen() || slices.Contains(n.owners, name)) {
			out[uid] = n.name
		}
	}
	for _, i := range roll.Intents {
		if _, exists := w.nodes[i.NodeUID]; exists && i.Compartment == compartment {
			out[i.NodeUID] = i.Node
		}
	}
	return out
}

// checkForeign compares what others wrote on nodes with what is there.
func (w *witness) checkForeign() {
	ctx, cancel := w.s.ctx()
	defer cancel()
	list, err := w.s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(w.s.t, err)
	for _, n := range list.Items {
		mark := w.s.model.marks[n.Name]
		if n.Labels[foreign+"/mark"] != mark || n.Annotations[foreign+"/mark"] != mark {
			w.breach("node %s: the mark of others is %q and %q, they wrote %q", n.Name, n.Labels[foreign+"/mark"], n.Annotations[foreign+"/mark"], mark)
		}
		tainted := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == foreignTaint })
		if tainted != w.s.model.taints[n.Name] {
			w.breach("node %s: the taint of others is there: %t, they want %t", n.Name, tainted, w.s.model.taints[n.Name])
		}
		if w.s.model.cordon[n.Name] && !n.Spec.Unschedulable {
			w.breach("node %s: the cordon of others is gone", n.Name)
		}
	}
}
