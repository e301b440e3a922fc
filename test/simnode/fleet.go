package simnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Fleet is a set of simulated nodes. It is safe for concurrent use.
type Fleet struct {
	options Options
	client  kubernetes.Interface
	queue   workqueue.TypedRateLimitingInterface[key]
	pods    cache.SharedIndexInformer

	mu     sync.Mutex
	nodes  map[string]*node
	runs   map[types.UID]*podRun
	nextIP int
}

// key names one piece of work: a pod, or a change of a node's power.
type key struct {
	namespace, pod string
	node           string
	power          power
}

// power is what happens to a machine.
type power string

const (
	powerOn    power = "on"
	powerOff   power = "off"
	powerCycle power = "cycle"
)

const byNode = "node"

// New makes a Fleet without nodes. Nothing is asked of the API server before AddNode or Run.
func New(config *rest.Config, o Options) (*Fleet, error) {
	o = o.withDefaults()
	config = rest.CopyConfig(config)
	config.UserAgent = UserAgent
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	f := &Fleet{options: o, client: client, nodes: map[string]*node{}, runs: map[types.UID]*podRun{}}
	f.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](5*time.Millisecond, 2*time.Second),
		workqueue.TypedRateLimitingQueueConfig[key]{Clock: o.Clock})
	f.pods = informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	return f, f.watchPods()
}

func (f *Fleet) watchPods() error {
	err := f.pods.AddIndexers(cache.Indexers{byNode: func(o any) ([]string, error) {
		return []string{o.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	_, err = f.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.enqueue(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { f.enqueue(o.(*corev1.Pod)) },
		DeleteFunc: f.forget,
	})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return nil
}

func (f *Fleet) enqueue(p *corev1.Pod) {
	if f.node(p.Spec.NodeName) != nil {
		f.queue.Add(key{namespace: p.Namespace, pod: p.Name})
	}
}

func (f *Fleet) forget(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	if p, ok := o.(*corev1.Pod); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.runs, p.UID)
	}
}

// Run plays the kubelets until ctx ends. A Fleet runs once.
func (f *Fleet) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	defer f.queue.ShutDown()
	all.Go(func() { f.pods.Run(ctx.Done()) })
	if !cache.WaitForCacheSync(ctx.Done(), f.pods.HasSynced) {
		return nil // ctx has ended
	}
	for range f.options.Workers {
		all.Go(func() { f.work(ctx) })
	}
	if f.options.Heartbeat > 0 {
		all.Go(func() { f.heartbeats(ctx) })
	}
	<-ctx.Done()
	return nil
}

func (f *Fleet) work(ctx context.Context) {
	for {
		k, quit := f.queue.Get()
		if quit {
			return
		}
		again, err := f.do(ctx, k)
		f.queue.Done(k)
		switch {
		case err != nil: // a conflict, a fault of the test, a stop of the server: the next try sees the newest state
			f.queue.AddRateLimited(k)
			continue
		case again > 0:
			f.queue.AddAfter(k, again)
		}
		f.queue.Forget(k)
	}
}

func (f *Fleet) do(ctx context.Context, k key) (time.Duration, error) {
	if k.node != "" {
		return 0, f.changePower(ctx, k)
	}
	o, exists, err := f.pods.GetStore().GetByKey(k.namespace + "/" + k.pod)
	if err != nil || !exists {
		return 0, err
	}
	return f.syncPod(ctx, o.(*corev1.Pod).DeepCopy())
}

// changePower may be asked again after an error; each change is idempotent. A node that is gone meanwhile has no power.
func (f *Fleet) changePower(ctx context.Context, k key) error {
	if f.node(k.node) == nil {
		return nil
	}
	switch k.power {
	case powerOn:
		return f.PowerOn(ctx, k.node)
	case powerOff:
		return f.PowerOff(ctx, k.node)
	default:
		return f.Reboot(ctx, k.node)
	}
}

// enqueueNode looks at every pod of a node again.
func (f *Fleet) enqueueNode(name string) {
	pods, err := f.pods.GetIndexer().ByIndex(byNode, name)
	if err != nil {
		return // only an unknown index is an error, and New made it
	}
	for _, o := range pods {
		f.enqueue(o.(*corev1.Pod))
	}
}

func (f *Fleet) now() metav1.Time { return metav1.NewTime(f.options.Clock.Now()) }
