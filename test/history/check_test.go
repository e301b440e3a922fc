package history

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

var rules = Rules{
	Ceilings: map[string]int{"tune": 1}, Budget: 1, Namespace: "fw", ForeignPrefix: "example.com/", Secret: "hunter2",
	Protected:      map[string]labels.Selector{"tune": labels.SelectorFromSet(labels.Set{"job": "training"})},
	ForeignCordons: map[string]bool{"f": true},
}

// told is a history in the order of its objects.
func told(objects ...client.Object) []Change {
	var out []Change
	for i, o := range objects {
		out = append(out, Change{Version: int64(i), Object: o})
	}
	return out
}

// node is a node; a record with order -1 is none.
func node(name string, cordoned bool, order int32, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}}}
	n.Spec.Unschedulable = cordoned
	n.Status.NodeInfo.BootID = "boot-1"
	if order >= 0 {
		n.Annotations[fleetv1.RecordKey("tune")] = noderecord.Encode(noderecord.Record{
			NodeWright: "nw", Node: n.UID, Round: 1, Batch: 1, Order: order, Compartment: "default",
		})
	}
	for _, c := range change {
		c(n)
	}
	return n
}

func pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node}}
	p.Status.Phase = corev1.PodRunning
	for _, c := range change {
		c(p)
	}
	return p
}

func leaving(p *corev1.Pod)  { p.DeletionTimestamp = &metav1.Time{} }
func training(p *corev1.Pod) { p.Labels = map[string]string{"job": "training"} }

// execution labels a Job or its pod.
func execution(pkg string, attempt int) map[string]string {
	l := map[string]string{
		fleetv1.NodeUIDLabel: "a", fleetv1.NodeWrightUIDLabel: "nw", fleetv1.RoundLabel: "1", nwv1.NameLabel: "tune",
		fleetv1.AttemptLabel: strconv.Itoa(attempt),
	}
	if pkg == interrupt {
		l[nwv1.InterruptLabel] = nwv1.InterruptLabelValue
	} else {
		l[fleetv1.PackageNameLabel] = pkg
	}
	return l
}

func job(pkg string, attempt int, done bool) *batchv1.Job {
	name := pkg + strconv.Itoa(attempt)
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "fw", UID: types.UID("job" + name), Labels: execution(pkg, attempt),
		Annotations: map[string]string{fleetv1.NodeAnnotation: "a"},
	}}
	if done {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
	}
	return j
}

// running is the pod of an execution with one container that runs, or that has succeeded.
func running(pkg string, attempt int, container string, succeeded bool) *corev1.Pod {
	p := pod(pkg+strconv.Itoa(attempt), "a", func(p *corev1.Pod) { p.Namespace, p.Labels = "fw", execution(pkg, attempt) })
	status := corev1.ContainerStatus{Name: container}
	if succeeded {
		status.State.Terminated = &corev1.ContainerStateTerminated{}
	} else {
		status.State.Running = &corev1.ContainerStateRunning{}
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
	return p
}

func ledger(halted bool, next int32) *fleetv1.Ledger {
	c := fleetv1.LedgerCompartment{}
	if halted {
		c.Halt = &fleetv1.LedgerHalt{}
	}
	return &fleetv1.Ledger{Spec: fleetv1.LedgerSpec{Rollouts: map[string]fleetv1.LedgerRollout{"tune": {
		Round: 1, NextOrder: next, Compartments: map[string]fleetv1.LedgerCompartment{"default": c},
	}}}}
}

func owned(n *corev1.Node) { n.Annotations[nwv1.CordonKey("tune")] = nwv1.TrueValue }

func TestCheckFinds(t *testing.T) {
	boot := func(n *corev1.Node) { n.Status.NodeInfo.BootID = "boot-2" }
	rack := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{"example.com/rack": value} }
	}
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "example.com/x", Effect: corev1.TaintEffectNoSchedule}}
	}
	for name, c := range map[string]struct {
		history []Change
		want    []string
	}{
		"nothing": {told(node("a", true, 0, owned), pod("web", "a"), pod("web", "a", leaving), job("kernel", 1, false)), nil},
		"two at work": {
			told(node("a", false, 0), node("b", false, 1)),
			[]string{"1: 2 nodes are at work or held under tune, whose ceiling is 1"},
		},
		"two held": {told(node("a", true, -1, owned), node("b", true, -1, owned)), []string{
			"1: 2 nodes are at work or held under tune, whose ceiling is 1",
			"1: 2 nodes are held, and the cluster's budget is 1",
		}},
		"eviction before the cordon": {
			told(node("a", false, 0), pod("web", "a"), pod("web", "a", leaving), node("a", true, 0)),
			[]string{"2: pod web was sent away from node a before its cordon"},
		},
		"protected pod sent away": {
			told(node("a", true, 0), pod("train", "a", training), pod("train", "a", training, leaving)),
			[]string{"3: pod train, which tune protects, was sent away"},
		},
		"interrupt beside a protected pod": {
			told(node("a", true, 0), pod("train", "a", training), job(interrupt, 1, false)),
			[]string{"3: an interrupt began on node a, where the protected pod train is"},
		},
		"interrupt before the drain ends": {
			told(node("a", true, 0), pod("web", "a", leaving), running(interrupt, 1, interrupt, false)),
			[]string{"4: an interrupt began on node a, where pod web still is"},
		},
		"interrupt without a cordon": {
			told(node("a", false, 0), job(interrupt, 1, false)), []string{"4: an interrupt began on node a, which is not cordoned"},
		},
		"label changed":        {told(node("a", false, -1, rack("1")), node("a", false, -1, rack("2"))), []string{"5: label example.com/rack of node a was changed"}},
		"taint gone":           {told(node("a", false, -1, tainted), node("a", false, -1)), []string{"5: taint example.com/x of node a was changed"}},
		"foreign cordon taken": {told(node("f", true, -1), node("f", false, -1)), []string{"5: the cordon of somebody else was taken off node f"}},
		"two executions": {
			told(node("a", false, 0), job("kernel", 1, false), job("kernel", 2, false)),
			[]string{"6: Job kernel began on node a while Job kernel was not over"},
		},
		"one after the other": {told(node("a", false, 0), job("kernel", 1, true), job("kernel", 2, false)), nil},
		"package beside an interrupt": {
			told(node("a", true, 0), job(interrupt, 1, false), job("kernel", 2, false)),
			[]string{"6: Job kernel began on node a while Job interrupt was not over"},
		},
		"package after a reboot": {told(node("a", true, 0), job(interrupt, 1, false), node("a", true, 0, boot), job("kernel", 2, false)), nil},
		"a stage again": {
			told(node("a", false, 0), running("kernel", 1, "kernel-applycheck", true), running("kernel", 2, "kernel-apply", false)),
			[]string{"6: kernel-apply succeeded on node a and began again in the round"},
		},
		"a check that did not succeed": {
			told(node("a", false, 0), running("kernel", 1, "kernel-apply", true), running("kernel", 2, "kernel-apply", false)), nil,
		},
		"admission after a halt": {
			told(ledger(true, 3), node("a", false, 3)), []string{"7: node a was admitted by tune after the halt"},
		},
		"admission that was decided before": {told(ledger(true, 3), node("a", false, 2)), nil},
		"resumed":                           {told(ledger(true, 3), ledger(false, 4), node("a", false, 3)), nil},
		"secret in a status": {
			told(&nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "tune"}, Status: nwv1.NodeWrightStatus{Reasons: []nwv1.ReasonCount{{Message: "hunter2"}}}}),
			[]string{"10: nodewright tune shows the value of a Secret"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Check(c.history, rules)) })
	}
}

func TestCheckForgetsWhatIsGone(t *testing.T) {
	changes := told(node("a", true, 0, owned), node("a", true, 0, owned), node("b", true, 1, owned))
	changes[1].Deleted = true
	require.Empty(t, Check(changes, rules))
}

func TestRan(t *testing.T) {
	second := node("a", false, 0)
	second.Status.NodeInfo.BootID = "boot-2"
	stages, reboots := Ran(told(node("a", false, 0), running("kernel", 1, "kernel-apply", true), running("kernel", 1, "kernel-apply", true), second))
	require.Equal(t, map[string][]string{"a": {"tune r1 kernel-apply"}}, stages)
	require.Equal(t, map[string]int{"a": 1}, reboots)
}
