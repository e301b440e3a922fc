package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/delivery"
	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	cluster.Main(m, cluster.Options{})
}

const (
	namespace = "fleetwright"
	patience  = 45 * time.Second
	moment    = 50 * time.Millisecond
)

var (
	installOnce sync.Once
	errInstall  = errors.New("not installed")
)

// world is one test's view: a repository server, an administrator's client, and the reconciler, which can be restarted.
type world struct {
	t       *testing.T
	admin   client.Client
	git     *gitserver.Server
	account *rest.Config
	stop    context.CancelFunc
	ended   chan error
	tokens  int

	hooks     string        // where webhooks are sent to
	retryBase time.Duration // of the next process
}

// newWorld starts the git server and the reconciler. Tests run one after the other: Fleets own cluster-scoped objects.
func newWorld(t *testing.T, options gitserver.Options) *world {
	t.Helper()
	c := cluster.Shared(t)
	installOnce.Do(func() { errInstall = chart.Apply(t.Context(), c.Config(), namespace, map[string]any{"replicas": 0}) })
	require.NoError(t, errInstall)
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	admin, err := client.New(c.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	server, err := gitserver.New(t.TempDir(), options)
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	account, err := c.ServiceAccountToken(t.Context(), namespace, chart.ReconcilerAccount)
	require.NoError(t, err)
	c.Audit().NeverRefused("system:serviceaccount:" + namespace + ":" + chart.ReconcilerAccount)
	w := &world{t: t, admin: admin, git: server, account: account, retryBase: 100 * time.Millisecond}
	w.clean() // what a test that failed left
	w.start()
	t.Cleanup(func() { w.kill(); w.clean() })
	return w
}

// start runs the reconciler as its service account.
func (w *world) start() {
	w.t.Helper()
	skip := true
	m, err := manager.New(w.account, manager.Options{
		Scheme: w.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: adapter.CacheOptions(namespace), Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(w.t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	w.hooks = "http://" + listener.Addr().String() + "/webhook"
	require.NoError(w.t, delivery.Add(m, delivery.Options{
		AllowInsecureHTTP: true, RetryBase: w.retryBase, Registry: prometheus.NewRegistry(), Webhooks: listener,
		Reporter: forge.ReporterOptions{MinInterval: time.Millisecond, BackoffBase: moment, DrainTimeout: time.Millisecond},
	}))
	ctx, cancel := context.WithCancel(context.Background())
	w.stop, w.ended = cancel, make(chan error, 1)
	go func() { w.ended <- m.Start(ctx) }()
}

func (w *world) kill() {
	if w.stop == nil {
		return
	}
	w.stop()
	<-w.ended
	w.stop = nil
}

// clean removes every object of the kinds that Fleets deliver, and the Fleets.
func (w *world) clean() {
	ctx := context.Background()
	var fleets fleetv1.FleetList
	require.NoError(w.t, w.admin.List(ctx, &fleets))
	for i := range fleets.Items {
		fleets.Items[i].Finalizers = nil
		_ = w.admin.Update(ctx, &fleets.Items[i])
		_ = w.admin.Delete(ctx, &fleets.Items[i])
	}
	for _, o := range []client.Object{&nwv1.NodeWright{}, &nwv1.DeploymentPolicy{}, &fleetv1.Package{}} {
		require.NoError(w.t, w.admin.DeleteAllOf(ctx, o))
	}
}

// repo makes a repository with a first commit.
func (w *world) repo(name string, files map[string]string) string {
	w.t.Helper()
	require.NoError(w.t, w.git.CreateRepo(name))
	return w.commit(name, files)
}

func (w *world) commit(name string, files map[string]string) string {
	w.t.Helper()
	sha, err := w.git.Commit(name, files, "change")
	require.NoError(w.t, err)
	return sha
}

// fleet makes a Fleet over path of a repository, with commit statuses as git notes.
func (w *world) fleet(name, repo string, edit ...func(*fleetv1.Fleet)) *fleetv1.Fleet {
	w.t.Helper()
	f := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.Spec.Source.URL = w.git.URL(repo)
	f.Spec.Path, f.Spec.Prune = "./a", true
	f.Spec.Interval.Duration, f.Spec.Timeout.Duration = 10*time.Second, 5*time.Second
	f.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitNotes}
	for _, e := range edit {
		e(f)
	}
	require.NoError(w.t, w.admin.Create(w.t.Context(), f))
	return f
}

func (w *world) get(f *fleetv1.Fleet) *fleetv1.Fleet {
	w.t.Helper()
	now := &fleetv1.Fleet{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(f), now))
	return now
}

// ask requests a reconciliation as `kubectl annotate` does, and waits until it is handled.
func (w *world) ask(f *fleetv1.Fleet) *fleetv1.Fleet {
	w.t.Helper()
	w.tokens++
	token := fmt.Sprintf("%s-%d", w.t.Name(), w.tokens)
	w.edit(f, func(now *fleetv1.Fleet) {
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, fleetv1.RequestedAtAnnotation, token)
	})
	return w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastHandledReconcileAt == token })
}

func (w *world) edit(f *fleetv1.Fleet, change func(*fleetv1.Fleet)) {
	w.t.Helper()
	now := w.get(f)
	before := now.DeepCopy()
	change(now)
	require.NoError(w.t, w.admin.Patch(w.t.Context(), now, client.MergeFrom(before)))
}

// until waits until the Fleet is as wanted, and says what it is otherwise.
func (w *world) until(f *fleetv1.Fleet, wanted func(*fleetv1.Fleet) bool) *fleetv1.Fleet {
	w.t.Helper()
	var now *fleetv1.Fleet
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(moment) {
		if now = w.get(f); wanted(now) {
			return now
		}
	}
	status, _ := json.MarshalIndent(now.Status, "", "  ")
	require.FailNow(w.t, "the Fleet does not come to the wanted state", "%s", status)
	return nil
}

func ready(f *fleetv1.Fleet) metav1.Condition {
	if c := meta.FindStatusCondition(f.Status.Conditions, "Ready"); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func has(f *fleetv1.Fleet, kind string) bool {
	return meta.IsStatusConditionTrue(f.Status.Conditions, kind)
}

// untilReason waits for a reason of Ready at the Fleet's current generation.
func (w *world) untilReason(f *fleetv1.Fleet, reason string) *fleetv1.Fleet {
	w.t.Helper()
	return w.until(f, func(now *fleetv1.Fleet) bool {
		return ready(now).Reason == reason && ready(now).ObservedGeneration == now.Generation
	})
}

// untilApplied waits until the commit is applied.
func (w *world) untilApplied(f *fleetv1.Fleet, sha string) *fleetv1.Fleet {
	w.t.Helper()
	return w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastAppliedRevision == "main@sha1:"+sha })
}

// play writes a NodeWright's status as the rollout would.
func (w *world) play(name string, edit func(*nwv1.NodeWrightStatus)) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		nw := &nwv1.NodeWright{}
		require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, nw))
		var list fleetv1.PackageList
		require.NoError(w.t, w.admin.List(w.t.Context(), &list))
		catalogue := map[string]*fleetv1.Package{}
		for i := range list.Items {
			catalogue[list.Items[i].Name] = &list.Items[i]
		}
		set, _ := desired.Resolve(nw, catalogue)
		nw.Status.ObservedGeneration, nw.Status.ContentHash = nw.Generation, set.Hash
		edit(&nw.Status)
		return w.admin.Status().Update(w.t.Context(), nw) == nil
	}, patience, moment)
}

func completed(s *nwv1.NodeWrightStatus) {
	s.Status, s.CompleteNodes, s.NodesFailed, s.Reasons = nwv1.StatusComplete, "24/24", 0, nil
}

// note is one commit status as it stands in the repository.
type note struct {
	Context, State, Description string
}

// notes are all statuses of a commit in the order in which they were written.
func (w *world) notes(repo, sha string) []note {
	text, err := w.git.Git(repo, "notes", "--ref=fleetwright", "show", sha)
	if err != nil {
		return nil
	}
	var out []note
	for line := range strings.Lines(text) {
		var n note
		require.NoError(w.t, json.Unmarshal([]byte(line), &n))
		out = append(out, n)
	}
	return out
}

// untilNote waits until the commit shows the state, and returns its last line.
func (w *world) untilNote(repo, sha, state string) note {
	w.t.Helper()
	var all []note
	require.Eventually(w.t, func() bool {
		all = w.notes(repo, sha)
		return len(all) > 0 && all[len(all)-1].State == state
	}, patience, moment, "commit status %s of %s; last seen %v", state, sha, &all)
	return all[len(all)-1]
}

// untilEvent waits for an event on an object of that kind and name whose note holds text.
func (w *world) untilEvent(kind, name, reason, text string) {
	w.t.Helper()
	var seen []string
	require.Eventually(w.t, func() bool {
		var list eventsv1.EventList
		require.NoError(w.t, w.admin.List(w.t.Context(), &list))
		seen = nil
		for _, e := range list.Items {
			if e.Regarding.Kind != kind || e.Regarding.Name != name {
				continue
			}
			seen = append(seen, e.Reason+": "+e.Note)
			if e.Reason == reason && strings.Contains(e.Note, text) {
				return true
			}
		}
		return false
	}, patience, moment, "event %s %q; seen: %v", reason, text, &seen)
}

// versions are the resource versions of everything that Fleets deliver.
func (w *world) versions() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	var nodeWrights nwv1.NodeWrightList
	var policies nwv1.DeploymentPolicyList
	var packages fleetv1.PackageList
	for _, list := range []client.ObjectList{&nodeWrights, &policies, &packages} {
		require.NoError(w.t, w.admin.List(w.t.Context(), list))
		require.NoError(w.t, meta.EachListItem(list, func(o runtimeObject) error {
			m, err := meta.Accessor(o)
			out[fmt.Sprintf("%T/%s", o, m.GetName())] = m.GetResourceVersion()
			return err
		}))
	}
	return out
}

// secret makes a Secret of the Fleets' namespace.
func (w *world) secret(name string, data map[string]string) {
	w.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, StringData: data}
	require.NoError(w.t, w.admin.Create(w.t.Context(), s))
	w.t.Cleanup(func() { _ = w.admin.Delete(context.Background(), s) })
}

// outage is a switch in front of a git server.
type outage struct {
	mu   sync.Mutex
	down bool
}

func (o *outage) set(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = down
}

func (o *outage) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		down := o.down
		o.mu.Unlock()
		if down {
			http.Error(rw, "down for maintenance", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(rw, r)
	})
}
