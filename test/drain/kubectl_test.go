package drain

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubectl/pkg/drain"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// What becomes of a pod.
const (
	goes   = "is asked to leave"
	stays  = "stays"
	blocks = "blocks the drain"
)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "a"},
		Spec:       corev1.PodSpec{NodeName: "n01"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func ownedBy(apiVersion, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner", Controller: new(true)}}
	}
}

func emptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

func mirror(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func in(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func inNamespace(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = name } }

func toleratesCordons(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
}

// TestChoiceOfPodsAgainstKubectl holds each kind of pod, under every combination of the options, against kubectl's own
// filters. Where we differ on purpose, the case says how.
func TestChoiceOfPodsAgainstKubectl(t *testing.T) {
	daemon, replica := ownedBy("apps/v1", "DaemonSet"), ownedBy("apps/v1", "ReplicaSet")
	for name, c := range map[string]struct {
		pod *corev1.Pod
		// differs is what we do instead, always; empty: the same as kubectl.
		differs string
	}{
		"replicated":              {pod(replica), ""},
		"StatefulSet":             {pod(ownedBy("apps/v1", "StatefulSet")), ""},
		"Job":                     {pod(ownedBy("batch/v1", "Job")), ""},
		"custom controller":       {pod(ownedBy("example.com/v1", "Trainer")), ""},
		"bare":                    {pod(), ""},
		"emptyDir":                {pod(replica, emptyDir), ""},
		"bare with emptyDir":      {pod(emptyDir), ""},
		"pending":                 {pod(replica, in(corev1.PodPending)), ""},
		"DaemonSet":               {pod(daemon), ""},
		"DaemonSet with emptyDir": {pod(daemon, emptyDir), ""},
		"mirror":                  {pod(mirror), ""},
		"mirror with emptyDir":    {pod(mirror, emptyDir), ""},
		// kubectl tidies them up; they disturb nobody and are in nobody's way
		"finished":        {pod(in(corev1.PodSucceeded)), stays},
		"failed emptyDir": {pod(replica, emptyDir, in(corev1.PodFailed)), stays},
		// as NodeWright does
		"kube-system":       {pod(replica, inNamespace("kube-system")), stays},
		"tolerates cordons": {pod(replica, toleratesCordons), stays},
		// never ours to evict
		"an execution of ours": {pod(ownedBy("batch/v1", "Job"), inNamespace("fleetwright"), func(p *corev1.Pod) {
			p.Labels = map[string]string{nwv1.NameLabel: "tune"}
		}), stays},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range 8 {
				force, deleteEmptyDir, ignoreDaemonSets := i&1 > 0, i&2 > 0, i&4 > 0
				cfg := nwv1.DrainConfig{Force: &force, DeleteEmptyDirData: &deleteEmptyDir, IgnoreDaemonSets: &ignoreDaemonSets}
				want := c.differs
				if want == "" {
					want = kubectls(t, c.pod, cfg)
				}
				require.Equal(t, want, ours(t, c.pod, cfg), "force %t, deleteEmptyDirData %t, ignoreDaemonSets %t", force, deleteEmptyDir, ignoreDaemonSets)
			}
		})
	}
}

// kubectls is what `kubectl drain` does with the pod.
func kubectls(t *testing.T, p *corev1.Pod, cfg nwv1.DrainConfig) string {
	t.Helper()
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "owner"}}
	helper := drain.Helper{
		Ctx: t.Context(), Client: fake.NewClientset(p, daemonSet), Force: *cfg.Force,
		DeleteEmptyDirData: *cfg.DeleteEmptyDirData, IgnoreAllDaemonSets: *cfg.IgnoreDaemonSets,
	}
	list, errs := helper.GetPodsForDeletion(p.Spec.NodeName)
	switch {
	case len(errs) > 0:
		return blocks
	case len(list.Pods()) > 0:
		return goes
	}
	return stays
}

// ours is what the planner does with the pod on a node that is admitted and cordoned, and has an interrupt to come.
func ours(t *testing.T, p *corev1.Pod, cfg nwv1.DrainConfig) string {
	t.Helper()
	object := &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{DrainConfig: &cfg, Packages: map[string]nwv1.Package{
		"tuning": {Version: "1.0.0", Image: "example.com/tuning", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot}},
	}}}
	set, problems := desired.Resolve(object, nil)
	require.Empty(t, problems)
	input := plan.Input{
		Settings:    plan.Settings{Namespace: "fleetwright"},
		NodeWrights: []plan.NodeWright{{Name: "tune", UID: "nw", Generation: 1, Spec: object.Spec, Desired: set}},
		Nodes:       []plan.Node{{Name: "n01", UID: "n", Ready: true, Pods: []*corev1.Pod{p}, PodsListed: true}},
		Occupancies: map[string]plan.Occupancy{"tune": {}},
	}
	admitted := plan.Compute(input)
	require.Len(t, admitted.Decisions, 1)
	input.Ledger, input.Nodes[0].Unschedulable, input.Nodes[0].CordonOwners = *admitted.Ledger, true, []string{"tune"}
	input.Nodes[0].Records = map[string]noderecord.Record{"tune": *admitted.Decisions[0].Record}
	out := plan.Compute(input)
	if len(out.Decisions) == 1 {
		switch d := out.Decisions[0]; {
		case len(d.Start) > 0:
			return stays // the node counts as empty
		case len(d.Evict) == 1 && d.Evict[0].UID == types.UID("a"):
			return goes
		}
	}
	require.Equal(t, plan.DrainBlocked, out.Reasons[0].Code)
	return blocks
}
