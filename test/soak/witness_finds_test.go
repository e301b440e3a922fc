package soak

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// told is one thing that the witness sees.
type told func(w *witness)

// hasNode shows a node; what is done to it comes after.
func hasNode(name string, change ...func(*corev1.Node)) told {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{poolLabel: "b"}, Annotations: map[string]string{},
	}}
	for _, c := range change {
		c(n)
	}
	return func(w *witness) { w.seeNode(watch.Event{Type: watch.Modified, Object: n})(w) }
}

func heldBy(wright string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[nwv1.CordonKey(wright)] = nwv1.TrueValue }
}

func atWorkFor(wright, compartment string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Annotations[fleetv1.RecordKey(wright)] = noderecord.Encode(noderecord.Record{
			NodeWright: types.UID(wright), Node: n.UID, Round: 1, Batch: 1, Compartment: compartment,
		})
	}
}

// admits is a ledger in which a NodeWright has admitted nodes, and perhaps halted.
func admits(wright, compartment string, halted bool, nodes ...string) told {
	roll := fleetv1.LedgerRollout{UID: types.UID(wright), Round: 1, Compartments: map[string]fleetv1.LedgerCompartment{compartment: {}}}
	if halted {
		roll.Compartments[compartment] = fleetv1.LedgerCompartment{Halt: &fleetv1.LedgerHalt{}}
	}
	for i, n := range nodes {
		roll.Intents = append(roll.Intents, fleetv1.LedgerIntent{
			NodeUID: types.UID(n), Node: n, Compartment: compartment, Round: 1, Batch: 1, Order: int32(i),
		})
	}
	ledger := &fleetv1.Ledger{Spec: fleetv1.LedgerSpec{Rollouts: map[string]fleetv1.LedgerRollout{wright: roll}}}
	return func(w *witness) { w.seeLedger(watch.Event{Type: watch.Modified, Object: ledger})(w) }
}

// execution is the pod of a package's work, with a container that runs or has succeeded.
func execution(name, container string, succeeded bool) told {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Labels: map[string]string{
			fleetv1.NodeUIDLabel: "n1", fleetv1.NodeWrightUIDLabel: "base", nwv1.NameLabel: wrightBase, fleetv1.RoundLabel: "1",
			fleetv1.PackageNameLabel: "first", batchv1.JobNameLabel: "job-of-" + name[:2],
		},
	}, Spec: corev1.PodSpec{NodeName: "n1"}}
	status := corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	if succeeded {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
	return func(w *witness) { w.pods.see(watch.Event{Type: watch.Modified, Object: p})(w) }
}

var dawn = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// asks is a request that was received so many seconds after dawn, and answered within a millisecond.
func asks(second int, user string, e cluster.AuditEvent, body string) told {
	e.User, e.Received, e.Request = user, dawn.Add(time.Duration(second)*time.Second), json.RawMessage(body)
	e.Completed = e.Received.Add(time.Millisecond)
	if e.Code == 0 {
		e.Code = 200
	}
	return func(w *witness) { w.judgeRequest(e) }
}

func cordons(second int, user string, set bool) told {
	body := `[{"op":"remove","path":"/spec/unschedulable"}]`
	if set {
		body = `{"spec":{"unschedulable":true}}`
	}
	return asks(second, user, cluster.AuditEvent{Verb: "patch", Resource: "nodes", Name: "n1"}, body)
}

func evicts(second int, pod string) told {
	return asks(second, reconcilerUser, cluster.AuditEvent{
		Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: metav1.NamespaceDefault, Name: pod,
	}, `{}`)
}

func deletes(second int, user, space, pod string) told {
	return asks(second, user, cluster.AuditEvent{Verb: "delete", Resource: "pods", Namespace: space, Name: pod}, `{}`)
}

func interrupts(second int) told {
	job, err := json.Marshal(batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{nwv1.InterruptLabel: nwv1.InterruptLabelValue}, Annotations: map[string]string{fleetv1.NodeAnnotation: "n1"},
	}})
	if err != nil {
		panic(err)
	}
	return asks(second, reconcilerUser, cluster.AuditEvent{Verb: "create", Resource: "jobs", Code: 201}, string(job))
}

func bornAt(second int, name string, protected bool) told {
	return func(w *witness) {
		w.born(appPod{name: name, node: "n1", training: protected}, metav1.NewTime(dawn.Add(time.Duration(second)*time.Second)))
	}
}

const others = "admin"

// TestWitnessFinds shows each check its breach, and next to it what is no breach: a soak is worth what its witness sees.
func TestWitnessFinds(t *testing.T) {
	held := func(n int) (all []told) {
		for i := range n {
			all = append(all, hasNode(fmt.Sprint("n", i)), hasNode(fmt.Sprint("n", i), heldBy(wrightBase)))
		}
		return all
	}
	for name, c := range map[string]struct {
		history []told
		want    string
	}{
		"as many cordoned as the Fleet allows": {held(5), ""},
		"one cordoned more":                    {held(6), "6 nodes are cordoned by us, the Fleet allows 5: n0 n1 n2 n3 n4 n5"},
		"as many admitted as the policy allows": {
			[]told{hasNode("n1"), hasNode("n2"), admits(wrightKernel, "default", false, "n1", "n2")}, "",
		},
		"one admitted more": {
			[]told{hasNode("n1"), hasNode("n2"), hasNode("n3"), admits(wrightKernel, "default", false, "n1", "n2", "n3")},
			"soak-kernel, compartment default: 3 nodes hold slots, 2 may: n1 n2 n3",
		},
		"one admitted beside those at work": {
			[]told{
				hasNode("n1", atWorkFor(wrightKernel, "default")), hasNode("n2", atWorkFor(wrightKernel, "default")), hasNode("n3"),
				admits(wrightKernel, "default", false, "n3"),
			},
			"soak-kernel, compartment default: 3 nodes hold slots, 2 may: n1 n2 n3",
		},
		"admitted in a halt": {
			[]told{hasNode("n1"), admits(wrightKernel, "a", true), admits(wrightKernel, "a", true, "n1")},
			"soak-kernel admits n1 although compartment a is halted",
		},
		"two executions": {
			[]told{execution("p1", "first-apply", false), execution("p2", "first-apply", false)},
			"two executions at once for n1/soak-base/first: map[p1:p1 on n1 p2:p2 on n1]",
		},
		"one after the other": {
			[]told{execution("p1", "first-apply", false), execution("p1", "first-apply", true), execution("p2", "first-config", false)}, "",
		},
		"a stage again": {
			[]told{execution("p1", "first-applycheck", true), execution("p2", "first-applycheck", true)},
			"a stage that succeeded ran again in its round: base/n1/1/first/first-applycheck: pod p1 on n1 at Jan  1 00:00:00.000, pod p2 on n1 at Jan  1 00:00:00.000",
		},
		"a stage again in the Job of the first, after a pause": {
			[]told{execution("p1", "first-applycheck", true), execution("p1b", "first-applycheck", true)}, "",
		},
		"eviction after the cordon": {[]told{bornAt(0, "app-1", false), cordons(1, reconcilerUser, true), evicts(2, "app-1")}, ""},
		"eviction before the cordon": {
			[]told{bornAt(0, "app-1", false), evicts(1, "app-1"), cordons(2, reconcilerUser, true)},
			"pod app-1 is evicted from node n1 at Jan  1 00:00:01.000000, which is not cordoned: never cordoned",
		},
		"eviction of a protected pod": {
			[]told{bornAt(0, "train-1", true), cordons(1, reconcilerUser, true), evicts(2, "train-1")}, "the protected pod train-1 is evicted",
		},
		"eviction of a stranger": {
			[]told{cordons(1, reconcilerUser, true), evicts(2, "dns")}, "pod default/dns, which the noise did not make, is evicted",
		},
		"deletion instead of an eviction": {
			[]told{deletes(1, reconcilerUser, "default", "app-1")}, "pod default/app-1 is deleted, although only evictions are asked for",
		},
		"cordon of others taken off": {
			[]told{cordons(1, others, true), cordons(2, reconcilerUser, false)}, "the cordon of others on node n1 was taken off",
		},
		"our cordon taken off": {[]told{cordons(1, reconcilerUser, true), cordons(2, reconcilerUser, false)}, ""},
		"interrupt beside a pod": {
			[]told{bornAt(0, "app-1", false), cordons(1, reconcilerUser, true), interrupts(30)},
			"an interrupt begins on node n1, where pod app-1 still is",
		},
		"interrupt of an empty node": {
			[]told{bornAt(0, "app-1", false), cordons(1, reconcilerUser, true), deletes(29, others, "default", "app-1"), interrupts(30)}, "",
		},
		"a request without the right": {
			[]told{asks(1, reconcilerUser, cluster.AuditEvent{Verb: "get", Resource: "secrets", URI: "/api/v1/secrets", Code: 403}, `{}`)},
			"refused by the chart's roles or policies: get /api/v1/secrets",
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, witnessed(c.history)) })
	}
}

// sinceWhen is the part of a breach that another run words differently.
var sinceWhen = regexp.MustCompile(` since [^:]*`)

// witnessed is what a new witness finds in a history; empty: nothing.
func witnessed(history []told) string {
	w := witnessOf(&stage{
		o: settings{nodes: 10}, wishes: newWishes(), policy: policyWish{a: 3, b: 4, rest: 2, yield: 4}, faults: newFaults(),
	})
	for _, h := range history {
		h(w)
	}
	if len(w.breaches) > 0 {
		return sinceWhen.ReplaceAllString(w.breaches[0], "")
	}
	return ""
}

// TestFaultsFindASecondReboot: the simulated machines count the reboots of one request.
func TestFaultsFindASecondReboot(t *testing.T) {
	f := newFaults()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
		fleetv1.NodeWrightUIDLabel: "nw", fleetv1.NodeUIDLabel: "n1", fleetv1.RoundLabel: "2", waveLabel: "1",
	}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	f.reboot(p, "")
	require.Empty(t, f.doubled)
	f.reboot(p, "")
	require.Equal(t, []string{"node n1 is rebooted 2 times for one request (nw/n1/2/1)"}, f.doubled)
}
