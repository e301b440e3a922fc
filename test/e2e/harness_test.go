//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/pkg/adapter/cluster"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	testcluster "github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/gitserver"
	"github.com/fleetwright/fleetwright/test/realnode"
)

const (
	namespace = "fleetwright"
	fleetName = "lab"
	repo      = "fleet"
	// binEnv names the directory with the programs and images to test, which `make e2e` builds.
	binEnv = "FLEETWRIGHT_E2E_BIN"
	// requireEnv makes a failure of what would be skipped.
	requireEnv = "FLEETWRIGHT_E2E_REQUIRE"
)

func TestMain(m *testing.M) { realnode.Main(m) }

// lab is everything that runs.
type lab struct {
	t      *testing.T
	nodes  *realnode.Lab
	one    *realnode.Machine
	two    *realnode.Machine
	kube   kubernetes.Interface
	client client.Client
	git    *gitserver.Server
	bin    string
	begin  time.Time
	// followed says that the Fleet exists.
	followed bool
}

// open brings up control plane, machines, git server and reconciler, all empty.
func open(t *testing.T) *lab {
	bin, begin := os.Getenv(binEnv), time.Now()
	why := realnode.Missing()
	if why == "" && bin == "" {
		why = binEnv + " does not say where the built programs are: run make e2e"
	}
	switch {
	case why != "" && os.Getenv(requireEnv) != "":
		t.Fatal(why)
	case why != "":
		t.Skip(why)
	}
	nodes, err := realnode.Open(t.Context())
	require.NoError(t, err)
	t.Cleanup(nodes.Close)
	l := &lab{t: t, nodes: nodes, bin: bin, begin: begin}
	l.one, err = nodes.Add("node-1")
	require.NoError(t, err)
	l.two, err = nodes.Add("node-2")
	require.NoError(t, err)
	l.connect()
	require.NoError(t, chart.Apply(t.Context(), nodes.Cluster.Config(), namespace, map[string]any{"replicas": 0}))
	l.publish()
	l.git, err = gitserver.New(l.dir("git"), gitserver.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.git.Close() })
	require.NoError(t, l.git.CreateRepo(repo))
	l.startReconciler()
	l.say("everything is up")
	return l
}

func (l *lab) machines() []*realnode.Machine { return []*realnode.Machine{l.one, l.two} }

// dir makes a directory that the next run removes where this one cannot.
func (l *lab) dir(name string) string {
	dir := filepath.Join(l.nodes.Dir(), name)
	require.NoError(l.t, os.MkdirAll(dir, 0o700))
	return dir
}

// say is what a person who waits for the test reads.
func (l *lab) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(l.begin).Seconds(), fmt.Sprintf(format, args...))
}

func (l *lab) connect() {
	config := l.nodes.Cluster.Config()
	scheme, err := cluster.Scheme()
	require.NoError(l.t, err)
	l.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(l.t, err)
	l.kube, err = kubernetes.NewForConfig(config)
	require.NoError(l.t, err)
}

// publish puts the shipped agent and the packages where machines pull from.
func (l *lab) publish() {
	index, err := layout.ImageIndexFromPath(filepath.Join(l.bin, "images", "agent"))
	require.NoError(l.t, err)
	manifest, err := index.IndexManifest()
	require.NoError(l.t, err)
	agent, err := index.Image(manifest.Manifests[0].Digest)
	require.NoError(l.t, err)
	file, err := agent.ConfigFile()
	require.NoError(l.t, err)
	// In a container /proc is its own and shows the kernel's boot ID; the machine's is seen through the mount of its root.
	file = file.DeepCopy()
	file.Config.Env = append(file.Config.Env, "FLEETWRIGHT_BOOT_ID_FILE=/root/proc/sys/kernel/random/boot_id")
	agent, err = mutate.ConfigFile(agent, file)
	require.NoError(l.t, err)
	_, err = l.nodes.Push(agent, "fleetwright/agent:e2e")
	require.NoError(l.t, err)
	for _, dir := range []string{
		"testdata/packages/shellscript", "testdata/packages/tuning", "../../fleet-example/packages/sysctl",
		"../../fleet-example/packages/service-dropin", "../../fleet-example/packages/kernel-argument",
	} {
		name := filepath.Base(dir)
		l.run("fleetwright", "package", "build", dir, "--push", "-t", l.nodes.PushAddress()+"/acme/"+name, "--base", l.nodes.Base())
	}
}

// run runs one of the built programs to its end.
func (l *lab) run(program string, args ...string) string {
	cmd := exec.CommandContext(l.t.Context(), filepath.Join(l.bin, program), args...)
	out, err := cmd.CombinedOutput()
	require.NoError(l.t, err, "%s %s: %s", program, strings.Join(args, " "), out)
	return string(out)
}

// startReconciler runs the shipped program with the chart's rights, as it ships but for shorter pauses.
func (l *lab) startReconciler() {
	account, err := chart.ReconcilerConfig(l.t.Context(), l.nodes.Cluster.Config(), namespace)
	require.NoError(l.t, err)
	dir := l.dir("reconciler")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(l.t, testcluster.WriteKubeconfig(kubeconfig, account))
	log, err := os.Create(filepath.Join(dir, "reconciler.log"))
	require.NoError(l.t, err)
	cmd := exec.Command(filepath.Join(l.bin, "fleetwright-reconciler"), "--kubeconfig", kubeconfig, "--namespace", namespace,
		"--agent-image", realnode.Registry+"/fleetwright/agent:e2e", "--metrics-address", "0", "--probe-address", "0",
		"--retry-backoff", "1s", "--drain-retry", "500ms", "--lease-duration", "4s", "--attempts", "2")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(l.t, cmd.Start())
	l.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
	})
}

// manifests reads the repository's first content.
func (l *lab) manifests() map[string]string {
	out := map[string]string{}
	for _, name := range []string{"kustomization.yaml", "policy.yaml", "host-tools.yaml", "host-kernel.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", "fleet", name))
		require.NoError(l.t, err)
		out[name] = string(data)
	}
	return out
}

// push makes a commit and, but for the first one, tells the reconciler to look, as a forge's webhook would.
func (l *lab) push(message string, change gitserver.Change) string {
	change.Message = message
	commit, err := l.git.Apply(repo, change)
	require.NoError(l.t, err)
	l.say("pushed %.7s: %s", commit, message)
	if !l.followed {
		object := &unstructured.Unstructured{} // as kubectl sends it: without the empty fields of our types
		require.NoError(l.t, yaml.Unmarshal(fmt.Appendf(nil, fleetManifest, l.git.URL(repo)), object))
		require.NoError(l.t, l.client.Create(l.t.Context(), object))
		l.followed = true
		return commit
	}
	l.patchFleet(fmt.Sprintf(`{"metadata":{"annotations":{"reconcile.fluxcd.io/requestedAt":%q}}}`, time.Now().Format(time.RFC3339Nano)))
	return commit
}

func (l *lab) patchFleet(patch string) {
	fleet := &fleetv1.Fleet{}
	fleet.Namespace, fleet.Name = namespace, fleetName
	require.NoError(l.t, l.client.Patch(l.t.Context(), fleet, client.RawPatch(types.MergePatchType, []byte(patch))))
}

const fleetManifest = `apiVersion: fleetwright.dev/v1alpha1
kind: Fleet
metadata: {name: ` + fleetName + `, namespace: ` + namespace + `}
spec:
  source: {url: "%s", ref: {branch: main}}
  interval: 10s
  scope:
    nodeSelector: {matchLabels: {pool: gpu}}
    images: ["registry.example/acme/*"]
  disruption: {maxNodes: 1}
  checks: {provider: gitnotes}
`
