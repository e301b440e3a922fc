package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// longNames are specs of every phase with the longest names that the API accepts and that differ only at their end: two
// NodeWrights, three nodes with dots and 63, 64 and 253 characters, two packages.
func longNames(t *testing.T) map[string]plan.ExecutionSpec {
	t.Helper()
	common := "gpu-worker-of-the-training-cluster.zone-a.example." // 50 characters
	require.Len(t, common, 50)
	nodes := []string{
		common + strings.Repeat("a", 13), common + strings.Repeat("a", 14), common + strings.Repeat("a", 50) + strings.Repeat(".b", 76) + "b",
	}
	require.Len(t, nodes[2], 253)
	out := map[string]plan.ExecutionSpec{}
	for n, node := range nodes {
		for w := range 2 {
			for p := range 2 {
				for _, phase := range []plan.Phase{plan.PhaseInstall, plan.PhaseConfig, plan.PhasePost, plan.PhaseUninstall, plan.PhaseCheck, plan.PhaseVerify, plan.PhaseInterrupt} {
					for attempt := int32(1); attempt <= 2; attempt++ {
						spec := longSpec(node, n, w, p, phase, attempt)
						out[fmt.Sprintf("%d %d %d %s %d", n, w, p, phase, attempt)] = spec
					}
				}
			}
		}
	}
	return out
}

func longSpec(node string, n, w, p int, phase plan.Phase, attempt int32) plan.ExecutionSpec {
	pkg := desired.Package{
		Name: strings.Repeat("p", 42) + string(rune('x'+p)), Version: "1.0.0-rc.1", // 43 characters
		Image: "ghcr.io/x/tuning", ConfigMap: map[string]string{strings.Repeat("k", 253): "v", "b.conf": "w"},
		ConfigHash: fmt.Sprint("hash", p), SnapshotHash: fmt.Sprint("5a", p),
	}
	spec := plan.ExecutionSpec{
		ExecutionKey: plan.ExecutionKey{
			NodeWright: strings.Repeat("w", 52) + string(rune('x'+w)), NodeWrightUID: types.UID(fmt.Sprint("nw-uid-", w)), // 53 characters
			NodeUID: types.UID(fmt.Sprint("node-uid-", n)), Round: 1 << 40, Package: pkg.Name, Phase: phase, Attempt: attempt,
		},
		Node: node, Compartment: "gold", Batch: 1, Definition: pkg, Stages: stagesIn(phase),
	}
	if phase == plan.PhaseInterrupt {
		spec.Package, spec.Wave, spec.Definition, spec.InterruptPackage = "", int32(p+1), desired.Package{}, pkg
		spec.Interrupt = &noderecord.Interrupt{Type: nwv1.InterruptReboot}
	}
	return spec
}

func stagesIn(phase plan.Phase) []nwv1.Stage {
	switch phase {
	case plan.PhaseInstall, plan.PhaseCheck, plan.PhaseVerify:
		return []nwv1.Stage{nwv1.StageApply, nwv1.StageUpgrade, nwv1.StageConfig}
	case plan.PhaseConfig:
		return []nwv1.Stage{nwv1.StageConfig}
	case plan.PhasePost:
		return []nwv1.Stage{nwv1.StagePostInterrupt}
	case plan.PhaseUninstall:
		return []nwv1.Stage{nwv1.StageUninstall}
	case plan.PhaseInterrupt:
	}
	return nil
}

// Every name that is derived from other names is valid and no other's, whoever derives it, and what a Job refers to exists.
func TestFieldReport_PF13_DerivedNames(t *testing.T) {
	jobs, configs := map[string]string{}, map[string]string{}
	for what, spec := range longNames(t) {
		node := testNode()
		node.Name, node.UID = spec.Node, spec.NodeUID
		job := BuildJob(spec, node, testSettings())
		require.Empty(t, validation.IsDNS1123Label(job.Name), "%s: pods are named after the Job", job.Name)
		require.Empty(t, jobs[job.Name], "%s and %s share a name", what, jobs[job.Name])
		jobs[job.Name] = what
		require.Equal(t, job.Name, JobName(keyRead(job)), "%s: the reader finds it by the same name", what)
		require.Equal(t, spec.ExecutionKey, keyRead(job), what)
		requireValidMetadata(t, job.ObjectMeta)
		requireValidMetadata(t, job.Spec.Template.ObjectMeta)
		requireStages(t, spec, job)

		existing := map[string]bool{"kube-root-ca.crt": true} // made by Kubernetes in every namespace
		if len(spec.Definition.ConfigMap) > 0 {
			cm := buildConfigMap(spec, "fleetwright")
			require.Empty(t, validation.IsDNS1123Subdomain(cm.Name))
			requireValidMetadata(t, cm.ObjectMeta)
			owner := string(spec.NodeWrightUID) + "/" + spec.Definition.Name
			require.Contains(t, []string{"", owner}, configs[cm.Name], "shared by two")
			configs[cm.Name], existing[cm.Name] = owner, true
		}
		requireMounts(t, job.Spec.Template.Spec, existing, spec.Definition.ConfigMap)
	}
	require.Len(t, jobs, 3*2*2*7*2)
	require.Len(t, configs, 4)
}

// keyRead is what an observer reads from a Job.
func keyRead(job *batchv1.Job) plan.ExecutionKey {
	key := keyOfLabels(job.Labels)
	key.NodeWright = job.Annotations[fleetv1.NodeWrightAnnotation]
	return key
}

func requireValidMetadata(t *testing.T, meta metav1.ObjectMeta) {
	t.Helper()
	for k, v := range meta.Labels {
		require.Empty(t, validation.IsQualifiedName(k))
		require.Empty(t, validation.IsValidLabelValue(v), "%s: %s", k, v)
	}
	for k := range meta.Annotations {
		require.Empty(t, validation.IsQualifiedName(k))
	}
}

// requireStages asks the reader of a Job for what the creator put into it.
func requireStages(t *testing.T, spec plan.ExecutionSpec, job *batchv1.Job) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range append(job.Spec.Template.Spec.InitContainers, job.Spec.Template.Spec.Containers...) {
		require.Empty(t, validation.IsDNS1123Label(c.Name), c.Name)
		require.False(t, seen[c.Name], "two containers %s", c.Name)
		seen[c.Name] = true
	}
	want := spec.Stages
	if spec.Phase == plan.PhaseInterrupt {
		want = []nwv1.Stage{nwv1.StageInterrupt}
	}
	require.Equal(t, want, allStages(job))
}

// requireMounts: each mount names a volume, each volume an object that exists, each file a key of it.
func requireMounts(t *testing.T, pod corev1.PodSpec, existing map[string]bool, keys map[string]string) {
	t.Helper()
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		require.Empty(t, validation.IsDNS1123Label(v.Name))
		require.NotContains(t, volumes, v.Name)
		volumes[v.Name] = v
		if v.ConfigMap != nil {
			require.True(t, existing[v.ConfigMap.Name], "configmap %s does not exist", v.ConfigMap.Name)
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				require.True(t, s.ConfigMap == nil || existing[s.ConfigMap.Name])
			}
		}
	}
	for _, c := range append(pod.InitContainers, pod.Containers...) {
		paths := map[string]bool{}
		for _, m := range c.VolumeMounts {
			require.Contains(t, volumes, m.Name, "container %s mounts it", c.Name)
			require.False(t, paths[m.MountPath], "two mounts at %s", m.MountPath)
			paths[m.MountPath] = true
			if volumes[m.Name].ConfigMap != nil {
				require.Contains(t, keys, m.SubPath)
			}
		}
	}
}

// Annotations on nodes are named after NodeWrights: the longest name that is accepted fits all of them.
func TestFieldReport_PF13_KeysOnNodes(t *testing.T) {
	name := strings.Repeat("w", nwv1.MaxNameLength)
	record := noderecord.Annotations(name, noderecord.Record{}, nwv1.StatusComplete, "v1")
	require.Len(t, record, 4)
	for key := range record {
		require.Empty(t, validation.IsQualifiedName(key), key)
	}
	for _, key := range []string{nwv1.CordonKey(name), fleetv1.RecordKey(name)} {
		require.Empty(t, validation.IsQualifiedName(key), key)
	}
}
