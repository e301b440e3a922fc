package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/delivery"
	adapter "github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestMain is also the process that builds pull requests.
func TestMain(m *testing.M) {
	if confined.IsChild(os.Args) {
		os.Exit(confined.Child(os.Args))
	}
	log.SetLogger(logr.Discard())
	cluster.Main(m, cluster.Options{})
}

const (
	namespace = "fleetwright"
	patience  = 45 * time.Second
	moment    = 50 * time.Millisecond
	repo      = "acme/fleet"
	nodes     = 3
)

var (
	installOnce sync.Once
	errInstall  = errors.New("not installed")
)

// world is one test's view: a repository, its forge, a cluster with some nodes, and a reviewer, which can be restarted.
type world struct {
	t       *testing.T
	admin   client.Client
	git     *gitserver.Server
	forge   *forgetest.Server
	account *rest.Config
	limits  sandbox.Limits
	stop    context.CancelFunc
	ended   chan error
	main    string // the first commit
	asked   int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := cluster.Shared(t)
	installOnce.Do(func() { errInstall = chart.Apply(t.Context(), c.Config(), namespace, map[string]any{"replicas": 0}) })
	require.NoError(t, errInstall)
	scheme, err := adapter.Scheme()
	require.NoError(t, err)
	admin, err := client.New(c.Config(), client.Options{Scheme: scheme})
	require.NoError(t, err)
	server, err := gitserver.New(t.TempDir(), gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	w := &world{t: t, admin: admin, git: server, forge: forgetest.NewServer(t, forge.KindGitea), account: c.ServiceAccount(namespace, chart.ReviewerAccount)}
	w.clean()
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"pool": "gpu"}}}
		require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), node)))
	}
	require.NoError(t, server.CreateRepo(repo))
	w.main = w.commit("main", files())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forge"}, StringData: map[string]string{"token": forgetest.Token}}
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), secret)))
	w.start()
	t.Cleanup(func() { w.kill(); w.clean() })
	return w
}

// start runs the reviewer as its service account.
func (w *world) start() {
	w.t.Helper()
	skip := true
	m, err := manager.New(w.account, manager.Options{
		Scheme: w.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Cache: adapter.CacheOptions(namespace), Controller: config.Controller{SkipNameValidation: &skip},
	})
	require.NoError(w.t, err)
	require.NoError(w.t, delivery.AddReview(m, delivery.ReviewOptions{
		Namespace: namespace, AllowInsecureHTTP: true, Registry: prometheus.NewRegistry(), Limits: w.limits, ClusterEvery: time.Millisecond,
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

func (w *world) clean() {
	ctx := context.Background()
	require.NoError(w.t, w.admin.DeleteAllOf(ctx, &fleetv1.Fleet{}, client.InNamespace(namespace)))
	require.NoError(w.t, w.admin.DeleteAllOf(ctx, &corev1.Node{}))
	require.Eventually(w.t, func() bool {
		var left fleetv1.FleetList
		return w.admin.List(ctx, &left) == nil && len(left.Items) == 0
	}, patience, moment)
}

// fleet makes a Fleet that plans pull requests.
func (w *world) fleet(name string, edit ...func(*fleetv1.Fleet)) *fleetv1.Fleet {
	w.t.Helper()
	f := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.Spec.Source.URL, f.Spec.Path, f.Spec.Prune = w.git.URL(repo), "./a", true
	f.Spec.Interval.Duration, f.Spec.Timeout.Duration = 10*time.Second, 5*time.Second
	f.Spec.Checks = &fleetv1.Checks{
		Provider: fleetv1.ProviderGitea, URL: w.forge.URL, SecretRef: &meta.LocalObjectReference{Name: "forge"}, Context: "fleetwright/" + name,
		PullRequests: &fleetv1.PullRequestChecks{Plan: true, Comment: true, Forks: fleetv1.ForksLabel},
	}
	for _, e := range edit {
		e(f)
	}
	require.NoError(w.t, w.admin.Create(w.t.Context(), f))
	return f
}

// look asks for a look, as a webhook does.
func (w *world) look(f *fleetv1.Fleet) {
	w.t.Helper()
	w.asked++
	now := &fleetv1.Fleet{}
	require.NoError(w.t, w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(f), now))
	before := now.DeepCopy()
	metav1.SetMetaDataAnnotation(&now.ObjectMeta, fleetv1.ReviewRequestedAtAnnotation, fmt.Sprint(w.asked))
	require.NoError(w.t, w.admin.Patch(w.t.Context(), now, client.MergeFrom(before)))
}

func (w *world) commit(branch string, files map[string]string) string {
	w.t.Helper()
	return w.apply(gitserver.Change{Branch: branch, Files: files, Message: "change"})
}

func (w *world) apply(c gitserver.Change) string {
	w.t.Helper()
	sha, err := w.git.Apply(repo, c)
	require.NoError(w.t, err)
	w.forge.Know(sha)
	return sha
}

// pull opens a pull request with one commit on main's first one; its commit is on no branch, as that of a fork is.
func (w *world) pull(fork bool, c gitserver.Change) forgetest.Pull {
	w.t.Helper()
	sha := w.detached(c)
	p := w.forge.AddPull(forgetest.Pull{Head: sha, BaseHead: w.main, MergeBase: w.main, Fork: fork})
	w.point(p.Number, sha)
	return p
}

func (w *world) detached(c gitserver.Change) string {
	w.t.Helper()
	c.Branch, c.Message = "topic", "a change"
	if c.Parent == "" {
		c.Parent = w.main
	}
	sha := w.apply(c)
	require.NoError(w.t, w.git.DeleteBranch(repo, "topic"))
	return sha
}

// point moves the ref of a pull request.
func (w *world) point(number int64, sha string) {
	w.t.Helper()
	_, err := w.git.Git(repo, "update-ref", fmt.Sprintf("refs/pull/%d/head", number), sha)
	require.NoError(w.t, err)
}

// push adds a commit to a pull request.
func (w *world) push(p forgetest.Pull, c gitserver.Change) string {
	w.t.Helper()
	c.Parent = p.Head
	sha := w.detached(c)
	w.point(p.Number, sha)
	w.forge.EditPull(p.Number, func(p *forgetest.Pull) { p.Head = sha })
	return sha
}

func (w *world) label(p forgetest.Pull, labels ...string) {
	w.forge.EditPull(p.Number, func(p *forgetest.Pull) { p.Labels = labels })
}

// status is the newest of a commit under the Fleet's plan context.
func (w *world) status(f *fleetv1.Fleet, sha string) forgetest.Row {
	var out forgetest.Row
	for _, row := range w.forge.Rows(sha) {
		if row.Context == f.Spec.Checks.Context+"/plan" {
			out = row
		}
	}
	return out
}

// until waits for a state of a commit, and returns its text.
func (w *world) until(f *fleetv1.Fleet, sha, state string) string {
	w.t.Helper()
	var row forgetest.Row
	require.Eventually(w.t, func() bool {
		row = w.status(f, sha)
		return row.State == state
	}, patience, moment, "state %s; seen %v", state, &row)
	return row.Description
}

// untilText waits for a text of a commit's status.
func (w *world) untilText(f *fleetv1.Fleet, sha, text string) forgetest.Row {
	w.t.Helper()
	var row forgetest.Row
	require.Eventually(w.t, func() bool {
		row = w.status(f, sha)
		return strings.Contains(row.Description, text)
	}, patience, moment, "text %q; seen %v", text, &row)
	return row
}

// untilComment waits for a comment that has a text.
func (w *world) untilComment(p forgetest.Pull, text string) string {
	w.t.Helper()
	var all []string
	require.Eventually(w.t, func() bool {
		all = w.forge.Comments(p.Number)
		return len(all) > 0 && strings.Contains(all[len(all)-1], text)
	}, patience, moment, "comment with %q; seen %v", text, &all)
	return all[len(all)-1]
}

// untilEvent waits for an event on a Fleet.
func (w *world) untilEvent(f *fleetv1.Fleet, reason, text string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		var list eventsv1.EventList
		require.NoError(w.t, w.admin.List(w.t.Context(), &list))
		for _, e := range list.Items {
			if e.Regarding.Name == f.Name && e.Reason == reason && strings.Contains(e.Note, text) {
				return true
			}
		}
		return false
	}, patience, moment, "event %s %q", reason, text)
}

func isForbidden(err error) bool { return apierrors.IsForbidden(err) }

const nodeWright = `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: NAME
spec:
  nodeSelectors:
    matchLabels:
      pool: gpu
  packages:
    NAME:
      image: ghcr.io/acme/tuning
      version: 1.0.0
`

const rebooting = `      interrupt:
        type: reboot
`

// files is a repository with one NodeWright in the directory a.
func files(changes ...map[string]string) map[string]string {
	out := map[string]string{
		"a/kustomization.yaml": "resources:\n  - gpu.yaml\n", "a/gpu.yaml": strings.ReplaceAll(nodeWright, "NAME", "gpu"), "README.md": "hello\n",
	}
	for _, c := range changes {
		maps.Copy(out, c)
	}
	return out
}

// more adds a NodeWright that reboots nodes.
func more() map[string]string {
	return map[string]string{
		"a/kustomization.yaml": "resources:\n  - gpu.yaml\n  - more.yaml\n",
		"a/more.yaml":          strings.ReplaceAll(nodeWright, "NAME", "more") + rebooting,
	}
}
