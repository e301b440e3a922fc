package rollout

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/simnode"
)

// explainPage is the page whose commands this test runs: what they print is what the page shows.
const explainPage = "../../docs/explain.md"

// explainer may do what the page's ClusterRole allows, and nothing else.
const explainer = "explainer"

// TestExplain builds the program and asks it about a rollout that is held at a protected pod, one that is halted and one
// that is complete, as the page about it does, word by word.
func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.prefix = "gpu" // as in the page
	w.storyToExplain()
	c := w.newCommandLine().as(w, explainer)
	w.grant(explainer)
	page, err := os.ReadFile(explainPage)
	require.NoError(t, err)

	ran := 0
	for _, block := range regexp.MustCompile("(?ms)^```console\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		command, shown, _ := strings.Cut(block[1], "\n")
		args := strings.Fields(strings.TrimPrefix(strings.TrimPrefix(command, "$ "), "kubectl "))
		require.Equal(t, []string{"fleetwright", "explain"}, args[:2])
		printed := withoutNotes(c.run(args[1:]...))
		if normalized(shown) != normalized(printed) {
			t.Errorf("%s\n%s\nprints:\n%s", explainPage, command, printed)
		}
		ran++
	}
	require.GreaterOrEqual(t, ran, 5)

	t.Run("JSON", func(t *testing.T) { w.requireJSON(c) })
	t.Run("only reads", func(t *testing.T) { w.requireReads() })
	t.Run("a missing right", func(t *testing.T) {
		out := c.as(w, "nobody").run("explain", "node/gpu-00")
		require.Equal(t, "fleetwright: user \"nobody\" lacks the right to list nodes at the cluster scope\n", out)
	})
	t.Run("kubeconfig", func(t *testing.T) { w.requireKubeconfigRules(c) })
	t.Run("a reconciler that is away", func(t *testing.T) {
		require.NoError(t, w.kube.CoordinationV1().Leases(namespace).Delete(w.ctx(), fleetv1.LeaseName, metav1.DeleteOptions{}))
		out := c.run("explain", "nodewright", "base")
		require.Contains(t, out, "Note: the Deployment fleetwright/fleetwright-reconciler has 0 replicas: unless a reconciler runs elsewhere, nothing moves.\n")
		require.Contains(t, out, "Note: no reconciler leads: the lease fleetwright/fleetwright-reconciler does not exist (is --namespace right?).\n")
	})
}

// storyToExplain rolls out: `base` is complete, `kernel` waits for a training pod, `limits` halts at its first node.
func (w *world) storyToExplain() {
	w.addNode(map[string]string{"pool": "training"})
	for range 3 {
		w.addNode(map[string]string{"pool": "serving"})
	}
	w.addPod("llm-training-0", "gpu-00", func(p *corev1.Pod) { p.Labels["workload"] = "training" })
	w.result.set(func(_ *corev1.Pod, container string) simnode.Result {
		if container == "limits-apply" {
			return simnode.Result{Exit: 1, Log: "reading limits.conf\nnofile: 1048576 is above fs.nr_open"}
		}
		return simnode.Result{}
	})
	w.lead()
	once := int32(1)
	policy := fixedPolicy("careful", 1)
	policy.Spec.Default.Strategy.Fixed.FailureThreshold = &once
	w.create(policy)
	w.start()
	w.create(w.only("base", "", func(nw *nwv1.NodeWright) { nw.Spec.Priority = 10 }))
	w.awaitComplete("base")
	w.create(w.only("kernel", "training", func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["kernel"]
		p.Interrupt = &nwv1.Interrupt{Type: nwv1.InterruptReboot}
		nw.Spec.Packages["kernel"] = p
		nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"workload": "training"}}
	}))
	w.create(w.only("limits", "serving", func(nw *nwv1.NodeWright) { nw.Spec.DeploymentPolicy = "careful" }))
	reasoned := func(code plan.Code) func(*nwv1.NodeWright) bool {
		return func(nw *nwv1.NodeWright) bool {
			for _, r := range nw.Status.Reasons {
				if r.Reason == string(code) {
					return true
				}
			}
			return false
		}
	}
	w.awaitStatus("kernel", "held at the pod", reasoned(plan.ProtectedPod))
	w.awaitStatus("limits", "halted", reasoned(plan.Halted))
}

// only is a NodeWright with one package of its own name, over one pool.
func (w *world) only(name, pool string, change func(*nwv1.NodeWright)) *nwv1.NodeWright {
	return w.nodeWright(name, func(nw *nwv1.NodeWright) {
		if pool != "" {
			nw.Spec.NodeSelectors.MatchLabels["pool"] = pool
		}
		nw.Spec.Packages = map[string]nwv1.Package{name: {Version: "1.0.0", Image: "example.com/" + name}}
		change(nw)
	})
}

// lead holds the lease, which the loop of these tests does without.
func (w *world) lead() {
	w.t.Helper()
	holder, now := "reconciler-0", metav1.NewMicroTime(time.Now().Add(time.Hour))
	w.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1.LeaseName, Namespace: namespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &now},
	})
	w.t.Cleanup(func() {
		_ = w.admin.Delete(w.ctx(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fleetv1.LeaseName, Namespace: namespace}})
	})
}

// grant gives a user the rights that the page says are needed.
func (w *world) grant(user string) {
	w.t.Helper()
	page, err := os.ReadFile(explainPage)
	require.NoError(w.t, err)
	block := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindSubmatch(page)
	require.NotNil(w.t, block)
	role := &rbacv1.ClusterRole{}
	require.NoError(w.t, yaml.UnmarshalStrict(block[1], role))
	w.create(role)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
	}
	w.create(binding)
	w.t.Cleanup(func() {
		for _, o := range []client.Object{binding, role} {
			_ = w.admin.Delete(w.ctx(), o)
		}
	})
}

// commandLine is the program, built, with a kubeconfig of one user.
type commandLine struct {
	t          *testing.T
	binary     string
	kubeconfig string
}

// program is built once, beside the control plane's files.
var program struct {
	once sync.Once
	path string
	err  error
}

func (w *world) newCommandLine() commandLine {
	w.t.Helper()
	program.once.Do(func() {
		program.path = filepath.Join(w.c.Dir(), "bin", "fleetwright")
		out, err := exec.CommandContext(w.t.Context(), "go", "build", "-o", program.path, "../../cmd/fleetwright").CombinedOutput()
		if err != nil {
			program.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(w.t, program.err)
	return commandLine{t: w.t, binary: program.path}
}

func (c commandLine) as(w *world, user string, groups ...string) commandLine {
	w.t.Helper()
	config, err := w.c.User(user, groups...)
	require.NoError(w.t, err)
	c.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	require.NoError(w.t, cluster.WriteKubeconfig(c.kubeconfig, config))
	return c
}

// run answers with what the program printed, on both streams.
func (c commandLine) run(args ...string) string {
	return c.runIn([]string{"KUBECONFIG=" + c.kubeconfig}, args...)
}

func (c commandLine) runIn(env []string, args ...string) string {
	out, _ := c.output(env, c.binary, args...) // the text is compared
	return out
}

// must is run of a command that has to end well.
func (c commandLine) must(args ...string) string {
	c.t.Helper()
	out, err := c.output([]string{"KUBECONFIG=" + c.kubeconfig}, c.binary, args...)
	require.NoError(c.t, err, "%s: %s", args, out)
	return out
}

func (c commandLine) output(env []string, program string, args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), program, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// requireJSON reads the same facts from JSON.
func (w *world) requireJSON(c commandLine) {
	var node struct {
		Unschedulable bool
		CordonedBy    []string
		NodeWrights   []struct {
			NodeWright string
			Batch      int
			Reason     struct{ Code, Object string }
		}
	}
	require.NoError(w.t, json.Unmarshal([]byte(c.run("explain", "node", "gpu-00", "-o", "json")), &node))
	require.True(w.t, node.Unschedulable)
	require.Equal(w.t, []string{"kernel"}, node.CordonedBy)
	require.Len(w.t, node.NodeWrights, 2)
	require.Equal(w.t, "base", node.NodeWrights[0].NodeWright)
	require.Equal(w.t, string(plan.Complete), node.NodeWrights[0].Reason.Code)
	require.Equal(w.t, string(plan.ProtectedPod), node.NodeWrights[1].Reason.Code)
	require.Equal(w.t, "pod default/llm-training-0", node.NodeWrights[1].Reason.Object)

	var nw struct {
		Failed, Total int
		Compartments  []struct{ Halt *struct{ Message string } }
		Failures      []struct{ Log string }
	}
	require.NoError(w.t, json.Unmarshal([]byte(c.run("explain", "nw/limits", "-o", "json")), &nw))
	require.Equal(w.t, 1, nw.Failed)
	require.Equal(w.t, 3, nw.Total)
	require.NotNil(w.t, nw.Compartments[0].Halt)
	require.Equal(w.t, "reading limits.conf\nnofile: 1048576 is above fs.nr_open", nw.Failures[0].Log)
}

// requireReads asserts on the API server's log that nothing was written and only one node's pods were listed.
func (w *world) requireReads() {
	require.NoError(w.t, w.c.Audit().Sync(w.ctx()))
	events, err := w.c.Audit().Events(cluster.Match{User: explainer})
	require.NoError(w.t, err)
	require.NotEmpty(w.t, events)
	for _, e := range events {
		require.Contains(w.t, []string{"get", "list"}, e.Verb, e.URI)
		require.Equal(w.t, 200, e.Code, "the page's rights are enough: %s", e.URI)
		if e.Resource == "pods" && e.Namespace == "" {
			require.Contains(w.t, e.URI, "fieldSelector=spec.nodeName%3Dgpu-00")
		}
	}
}

func (w *world) requireKubeconfigRules(c commandLine) {
	complete := "nodewright base: complete, 4/4 nodes complete"
	nowhere := "KUBECONFIG=" + filepath.Join(w.t.TempDir(), "none")
	require.Contains(w.t, c.runIn([]string{nowhere}, "explain", "nodewright/base", "--kubeconfig", c.kubeconfig), complete, "the flag wins")
	home := w.t.TempDir()
	require.NoError(w.t, os.Mkdir(filepath.Join(home, ".kube"), 0o700))
	data, err := os.ReadFile(c.kubeconfig)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(home, ".kube", "config"), data, 0o600))
	require.Contains(w.t, c.runIn([]string{"KUBECONFIG=", "HOME=" + home}, "explain", "nodewright/base"), complete, "the file of the home directory")
	require.Contains(w.t, c.run("explain", "nodewright/base", "--context", "test"), complete)
	require.Equal(w.t, "fleetwright: read kubeconfig (KUBECONFIG: "+c.kubeconfig+`): context "elsewhere" does not exist`+"\n",
		c.run("explain", "nodewright/base", "--context", "elsewhere"))
}

// withoutNotes leaves out that the chart's own Deployment is scaled down: the loop runs in the test.
func withoutNotes(out string) string {
	return strings.TrimPrefix(out, "Note: the Deployment fleetwright/fleetwright-reconciler has 0 replicas: unless a reconciler runs elsewhere, nothing moves.\n\n")
}

var volatile = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \([0-9dhms]+ ago\)`), "TIME"},
	{regexp.MustCompile(`-[0-9a-f]{20}\b`), "-HASH"},
}

// normalized leaves out what differs from run to run.
func normalized(out string) string {
	for _, v := range volatile {
		out = v.pattern.ReplaceAllString(out, v.replacement)
	}
	return strings.TrimRight(out, "\n")
}
