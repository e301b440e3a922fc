package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// namespace of the reconciler.
const namespace = "fleetwright"

// patience is how long one step of the story may take. On a quiet machine it takes seconds; a reflector that lost its API
// server twice waits for half a minute each time.
const patience = 5 * time.Minute

// lane is a control plane with the chart installed, on which one run after another is played.
type lane struct {
	cluster *cluster.Cluster
	config  *rest.Config // the reconciler's own account
	admin   client.Client
	runs    int
}

// lanes are started when they are needed, and stopped by TestMain.
var lanes struct {
	mu  sync.Mutex
	all []*lane
}

func stopLanes() {
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	for _, l := range lanes.all {
		l.cluster.Stop()
	}
}

// someLanes returns the first n lanes.
func someLanes(ctx context.Context, n int) ([]*lane, error) {
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	for len(lanes.all) < n {
		l := &lane{}
		if err := l.start(ctx); err != nil {
			return nil, err
		}
		lanes.all = append(lanes.all, l)
	}
	return lanes.all[:n], nil
}

func (l *lane) start(ctx context.Context) error {
	c, err := cluster.Start(ctx, cluster.Options{Controllers: true, Scheduler: true, JobSyncPeriod: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	l.cluster, l.runs = c, 0
	if err := chart.Apply(ctx, c.Config(), namespace, map[string]any{"replicas": 0}); err != nil {
		return fmt.Errorf("install the chart: %w", err)
	}
	scheme, err := adapter.Scheme()
	if err != nil {
		return err
	}
	if l.admin, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	l.config, err = chart.ReconcilerConfig(ctx, c.Config(), namespace)
	return err
}

// runsOfACluster is after how many runs a control plane is replaced, so that neither its store nor its request log grows
// without end.
const runsOfACluster = 100

// renew replaces the control plane when it has grown.
func (l *lane) renew(ctx context.Context) error {
	if l.runs++; l.runs <= runsOfACluster {
		return nil
	}
	l.cluster.Stop()
	return l.start(ctx)
}

// kubelets plays the nodes of one run until stop is called.
func (l *lane) kubelets(ask func(*corev1.Pod, string) simnode.Result) (fleet *simnode.Fleet, stop func(), err error) {
	fleet, err = simnode.New(l.cluster.Config(), simnode.Options{
		Outcome: ask, Duration: 2 * time.Millisecond, Relist: 20 * time.Millisecond, RebootDuration: 20 * time.Millisecond,
		Termination: func(p *corev1.Pod) time.Duration {
			if p.Namespace == metav1.NamespaceDefault {
				return 60 * time.Millisecond
			}
			return 0
		},
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fleet.Run(ctx)
	}()
	return fleet, func() { cancel(); <-done }, nil
}

// clear removes everything of a run.
func (l *lane) clear(ctx context.Context, fleet *simnode.Fleet) error {
	if err := l.unfinish(ctx); err != nil {
		return err
	}
	now := client.GracePeriodSeconds(0)
	here := client.InNamespace(namespace)
	for _, deletion := range []struct {
		of      client.Object
		options []client.DeleteAllOfOption
	}{
		{&nwv1.NodeWright{}, nil}, {&nwv1.DeploymentPolicy{}, nil}, {&fleetv1.Ledger{}, nil},
		{&fleetv1.Fleet{}, []client.DeleteAllOfOption{here}},
		{&batchv1.Job{}, []client.DeleteAllOfOption{here, client.PropagationPolicy(metav1.DeletePropagationBackground)}},
		{&corev1.Pod{}, []client.DeleteAllOfOption{here, now}},
		{&corev1.Pod{}, []client.DeleteAllOfOption{client.InNamespace(metav1.NamespaceDefault), now}},
		{&policyv1.PodDisruptionBudget{}, []client.DeleteAllOfOption{client.InNamespace(metav1.NamespaceDefault)}},
		{&corev1.ConfigMap{}, []client.DeleteAllOfOption{here, client.MatchingLabels{fleetv1.ManagedByLabel: fleetv1.FieldManager}}},
		{&corev1.Event{}, []client.DeleteAllOfOption{client.InNamespace(metav1.NamespaceDefault)}},
	} {
		if err := l.admin.DeleteAllOf(ctx, deletion.of, deletion.options...); err != nil {
			return fmt.Errorf("delete %T: %w", deletion.of, err)
		}
	}
	if err := fleet.Cleanup(ctx); err != nil {
		return err
	}
	return eventually(ctx, "everything of the run is gone", func() (bool, error) {
		left := 0
		for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &nwv1.NodeWrightList{}, &corev1.NodeList{}} {
			if err := l.admin.List(ctx, list); err != nil {
				return false, err
			}
			left += lengthOf(list)
		}
		return left == 0, nil
	})
}

// unfinish takes off the finalizers of a run that did not come to its end: nobody would.
func (l *lane) unfinish(ctx context.Context) error {
	list := &nwv1.NodeWrightList{}
	if err := l.admin.List(ctx, list); err != nil {
		return fmt.Errorf("list nodewrights: %w", err)
	}
	for i := range list.Items {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := l.admin.Patch(ctx, &list.Items[i], patch); err != nil {
			return fmt.Errorf("take finalizers off %s: %w", list.Items[i].Name, err)
		}
	}
	return nil
}

func lengthOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *batchv1.JobList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	case *nwv1.NodeWrightList:
		return len(l.Items)
	case *corev1.NodeList:
		return len(l.Items)
	}
	return 0
}

// eventually polls. What it waited for is said when the time is over.
func eventually(ctx context.Context, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		done, err := ok()
		if done {
			return nil
		}
		last = err
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("wait until %s: %w", what, ctx.Err()), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// logs is where the loop's log goes.
func logs() io.Writer {
	if os.Getenv("FLEETWRIGHT_TEST_LOG") != "" {
		return os.Stderr
	}
	return io.Discard
}
