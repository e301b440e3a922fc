package cluster

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", UID: "node-uid", Labels: map[string]string{"pool": "gpu"},
			Annotations: map[string]string{"example.com/rack": "r7", "fleetwright.dev/record_tune": "{}"},
		},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: "machine-1"}},
	}
}

func testSettings() JobSettings {
	return JobSettings{Namespace: "fleetwright", AgentImage: "agent:1", ServiceAccount: "fleetwright-execution",
		InterruptAccount: "fleetwright-interrupt"}
}

func testPackage() desired.Package {
	grace := 1500 * time.Millisecond
	return desired.Package{
		Name: "tuning", Version: "1.2.3", Image: "ghcr.io/x/tuning", Env: []corev1.EnvVar{{Name: "LEVEL", Value: "high"}},
		ConfigMap: map[string]string{"sysctl.conf": "a=1", "limits": "x"}, ConfigHash: "c0ffee", GracefulShutdown: &grace,
	}
}

func installSpec() plan.ExecutionSpec {
	return plan.ExecutionSpec{
		ExecutionKey: plan.ExecutionKey{
			NodeWright: "tune", NodeWrightUID: "nw-uid", NodeUID: "node-uid", Round: 7, Package: "tuning", Phase: plan.PhaseInstall, Attempt: 2,
		},
		Node: "node-1", Compartment: "gold", Batch: 4, Order: 11, Stages: []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig},
		Definition: testPackage(), Fresh: true, Timeout: 90 * time.Second,
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
	}
}

func interruptSpec() plan.ExecutionSpec {
	return plan.ExecutionSpec{
		ExecutionKey: plan.ExecutionKey{
			NodeWright: "tune", NodeWrightUID: "nw-uid", NodeUID: "node-uid", Round: 7, Phase: plan.PhaseInterrupt, Wave: 2, Attempt: 1,
		},
		Node: "node-1", Compartment: "gold", Batch: 4, Order: 11, InterruptPackage: testPackage(),
		Interrupt: &noderecord.Interrupt{Type: nwv1.InterruptService, Services: []string{"containerd", "kubelet"}},
		Guard: plan.InterruptGuard{
			Protect: labels.SelectorFromSet(labels.Set{"team": "ml"}), DaemonSets: true, Stay: []types.UID{"dns-uid"},
		},
	}
}

func TestBuildJob(t *testing.T) {
	for name, spec := range map[string]plan.ExecutionSpec{"install": installSpec(), "interrupt": interruptSpec()} {
		t.Run(name, func(t *testing.T) {
			got, err := yaml.Marshal(BuildJob(spec, testNode(), testSettings()))
			require.NoError(t, err)
			file := filepath.Join("testdata", "job-"+name+".golden.yaml")
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, got, 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "run the test with -update once")
			require.Equal(t, string(want), string(got))
		})
	}
}

func TestBuildJobPromises(t *testing.T) {
	job := BuildJob(installSpec(), testNode(), testSettings())
	pod := job.Spec.Template.Spec
	require.False(t, *pod.AutomountServiceAccountToken, "no execution sees a token")
	require.Empty(t, pod.NodeName, "the scheduler places the pod: it waits for room")
	require.Nil(t, job.Spec.TTLSecondsAfterFinished, "a Job stays until its batch has settled")
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		require.Empty(t, c.Resources, "nothing is requested that the package does not ask for")
	}
	require.Equal(t, "fleetwright-execution", pod.PriorityClassName)
	var names []string
	for _, c := range pod.InitContainers {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"tuning-init", "tuning-apply", "tuning-applycheck", "tuning-config", "tuning-configcheck"}, names)
}

// Only interrupts have a token: short-lived, of an account of their own, seen by the agent's container alone.
func TestOnlyInterruptsHaveAToken(t *testing.T) {
	tokens := func(spec plan.ExecutionSpec, s JobSettings) (account string, n int) {
		pod := BuildJob(spec, testNode(), s).Spec.Template.Spec
		require.False(t, *pod.AutomountServiceAccountToken)
		for _, v := range pod.Volumes {
			if v.Projected != nil {
				require.EqualValues(t, 600, *v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds)
				n++
			}
		}
		require.Len(t, pod.Containers[0].VolumeMounts, 0, "the last container sees nothing")
		return pod.ServiceAccountName, n
	}
	account, n := tokens(installSpec(), testSettings())
	require.Equal(t, "fleetwright-execution", account)
	require.Zero(t, n)
	account, n = tokens(interruptSpec(), testSettings())
	require.Equal(t, "fleetwright-interrupt", account)
	require.Equal(t, 1, n)
	without := testSettings()
	without.InterruptAccount = ""
	account, n = tokens(interruptSpec(), without)
	require.Equal(t, "fleetwright-execution", account)
	require.Zero(t, n)
}

// The Jobs of checks have no container that works.
func TestBuildJobOfChecks(t *testing.T) {
	for _, phase := range []plan.Phase{plan.PhaseCheck, plan.PhaseVerify} {
		spec := installSpec()
		spec.Phase, spec.Stages = phase, []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig, nwv1.StagePostInterrupt}
		job := BuildJob(spec, testNode(), testSettings())
		var args [][]string
		for _, c := range job.Spec.Template.Spec.InitContainers[1:] {
			args = append(args, []string{c.Name, c.Args[0]})
			require.Contains(t, c.Env, corev1.EnvVar{Name: "FLEETWRIGHT_CHECK_FIRST", Value: "true"})
		}
		require.Equal(t, [][]string{
			{"tuning-applycheck", "apply-check"}, {"tuning-configcheck", "config-check"}, {"tuning-post-interruptcheck", "post-interrupt-check"},
		}, args)
		require.Equal(t, spec.Stages, allStages(job))
	}
}

func TestJobName(t *testing.T) {
	base := installSpec().ExecutionKey
	seen := map[string]bool{}
	for _, change := range []func(*plan.ExecutionKey){
		func(*plan.ExecutionKey) {}, func(k *plan.ExecutionKey) { k.Round++ }, func(k *plan.ExecutionKey) { k.Attempt++ },
		func(k *plan.ExecutionKey) { k.NodeUID = "other" }, func(k *plan.ExecutionKey) { k.NodeWrightUID = "other" },
		func(k *plan.ExecutionKey) { k.Phase = plan.PhasePost }, func(k *plan.ExecutionKey) { k.Wave++ },
		func(k *plan.ExecutionKey) { k.Package = "a-package-with-a-name-of-exactly-43-characters"[:43] },
	} {
		k := base
		change(&k)
		name := JobName(k)
		require.Empty(t, validation.IsDNS1123Label(name), name)
		require.False(t, seen[name], "%s is unique", name)
		require.Equal(t, name, JobName(k))
		seen[name] = true
	}
}

// What uninstalls for a deletion is not owned by what is deleted, and neither is its configuration, which is another object.
func TestWhatADeletionStartsIsNotOwned(t *testing.T) {
	spec := plan.ExecutionSpec{ExecutionKey: plan.ExecutionKey{NodeWright: "base", NodeWrightUID: "u"}}
	owned := buildConfigMap(spec, "ns")
	require.Len(t, owned.OwnerReferences, 1)
	require.Len(t, jobMeta(spec).OwnerReferences, 1)
	spec.Unowned = true
	free := buildConfigMap(spec, "ns")
	require.Empty(t, free.OwnerReferences)
	require.Empty(t, jobMeta(spec).OwnerReferences)
	require.NotEqual(t, owned.Name, free.Name)
}

func TestConfigMapsAreNotShared(t *testing.T) {
	a, b := installSpec(), installSpec()
	b.NodeWrightUID = "another"
	require.NotEqual(t, buildConfigMap(a, "ns").Name, buildConfigMap(b, "ns").Name)
	require.True(t, *buildConfigMap(a, "ns").Immutable)
}

func TestSnapshotComesBack(t *testing.T) {
	nw := &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{"tuning": {
		Version: "1.0.0", Image: "x/y", ConfigMap: map[string]string{"k": "v"}, Uninstall: &nwv1.Uninstall{Enabled: true},
	}}}}
	set, problems := desired.Resolve(nw, nil)
	require.Empty(t, problems)
	back, err := readSnapshot(buildSnapshot(set.Packages[0], "ns"))
	require.NoError(t, err)
	require.Equal(t, set.Packages[0], back)
}
