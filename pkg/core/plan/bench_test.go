package plan_test

import (
	"fmt"
	"maps"
	"math/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// BenchmarkCompute is one pass over a fleet of 5 NodeWrights with 10 packages each, whose policy has 20 compartments.
// At rest, everything is complete. Half-way, the last NodeWright has half of its nodes to do, and a batch of 5 % of the
// fleet is at work. One pass over 10 000 nodes is to take at most 100 ms and 64 MiB of garbage on one core.
func BenchmarkCompute(b *testing.B) {
	for _, state := range []string{"rest", "halfway"} {
		for _, nodes := range []int{1000, 3000, 10000} {
			b.Run(fmt.Sprintf("%s/%dnodes", state, nodes), func(b *testing.B) {
				in := fleetOf(b, nodes, state == "halfway")
				b.ReportAllocs()
				for b.Loop() {
					plan.Compute(in)
				}
			})
		}
	}
}

const (
	groups     = 20
	groupLabel = "group"
	lastOfFive = "nodewright-4"
)

// TestTheBenchmarkMeasuresWhatItSays, on a small fleet.
func TestTheBenchmarkMeasuresWhatItSays(t *testing.T) {
	rest := plan.Compute(fleetOf(t, 200, false))
	require.Empty(t, rest.Decisions)
	require.Nil(t, rest.Ledger)
	for _, s := range rest.Statuses {
		require.Equal(t, nwv1.StatusComplete, s.Status)
		require.EqualValues(t, 200, s.Complete)
		require.Len(t, s.Compartments, groups+1)
	}
	halfway := plan.Compute(fleetOf(t, 200, true))
	require.Empty(t, halfway.Decisions, "everybody waits for the batch")
	last := halfway.Statuses[4]
	require.Equal(t, nwv1.StatusInProgress, last.Status)
	require.EqualValues(t, []int32{200, 100, 20, 80}, []int32{last.Total, last.Complete, last.InProgress, last.Waiting})
	require.Equal(t, []plan.Code{plan.Running, plan.WaitingForBatch}, []plan.Code{last.Reasons[0].Code, last.Reasons[1].Code})
}

// fleetOf is a fleet at rest or half-way. What a real rollout leaves on one node in each state is copied to the others,
// and read from text as on a real cluster; the nodes come in no order.
func fleetOf(t tb, nodes int, halfway bool) plan.Input {
	w, done, atWork, waiting := rolloutOfOneGroup(t)
	in := w.input()
	in.Nodes = nil
	var reader noderecord.Reader
	for i := range nodes {
		from, place, size := done, i/groups, nodes/groups
		switch {
		case halfway && place >= size/2+max(1, size/20):
			from = waiting
		case halfway && place >= size/2:
			from = atWork
		}
		in.Nodes = append(in.Nodes, copyNode(t, &reader, from, i))
	}
	rng := rand.New(rand.NewSource(1))
	rng.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
	if !halfway {
		w.settle()
	}
	in.Ledger = inEveryGroup(w.in.Ledger)
	return in
}

// rolloutOfOneGroup rolls 5 NodeWrights out over three nodes of one group, then changes the last one and stops when the
// first node is done, the second is at work and the third waits.
func rolloutOfOneGroup(t tb) (w *world, done, atWork, waiting plan.Node) {
	w = newWorld(t, 0)
	for i := range 3 {
		w.addNode(fmt.Sprintf("n%02d", i+1), map[string]string{groupLabel: "group-00"})
	}
	for i := range 5 {
		w.nodeWright(fmt.Sprintf("nodewright-%d", i), inGroups, tenPackages("1.0.0")...)
	}
	w.settle()
	w.nodeWright(lastOfFive, nil, tenPackages("1.1.0")...)
	for range 100 {
		w.pass()
		if w.reason(lastOfFive, "n02").Code == plan.Running {
			break
		}
		w.work()
	}
	in := w.input()
	require.Equal(t, plan.Complete, w.reason(lastOfFive, "n01").Code)
	require.Equal(t, plan.WaitingForBatch, w.reason(lastOfFive, "n03").Code)
	in.Nodes[0].Executions = nil
	return w, in.Nodes[0], in.Nodes[1], in.Nodes[2]
}

func tenPackages(version string) []desired.Package {
	var out []desired.Package
	for i := range 10 {
		out = append(out, config(pkg(fmt.Sprintf("package-%c", 'a'+i), version), "conf", version))
	}
	return out
}

// inGroups is a policy with 20 compartments by node label, of which each may have a tenth of its nodes at work.
func inGroups(nw *plan.NodeWright) {
	s := linear(1, 5)
	nw.Policy = &nwv1.DeploymentPolicySpec{Default: nwv1.PolicyDefault{Budget: percent(10), Strategy: &s}}
	for i := range groups {
		nw.Policy.Compartments = append(nw.Policy.Compartments, nwv1.Compartment{
			Name: group(i), Selector: metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: group(i)}},
			Budget: percent(10), Strategy: &s,
		})
	}
}

func group(i int) string { return fmt.Sprintf("group-%02d", i%groups) }

// copyNode is the i-th node of the fleet, in the state of the given one.
func copyNode(t tb, reader *noderecord.Reader, from plan.Node, i int) plan.Node {
	n := from
	n.Name, n.UID = fmt.Sprintf("node-%05d", i), types.UID(fmt.Sprintf("b4f1d6b6-7d43-4a5e-9d1c-%012d", i))
	n.Labels = maps.Clone(from.Labels)
	n.Labels[groupLabel] = group(i)
	n.Labels["kubernetes.io/hostname"] = n.Name
	n.Records = map[string]noderecord.Record{}
	for name, r := range from.Records {
		r.Node, r.Compartment = n.UID, group(i)
		read, found, err := reader.Read(noderecord.Encode(r), n.UID)
		require.NoError(t, err)
		require.True(t, found)
		n.Records[reader.Word(name)] = read
	}
	n.Executions = nil
	for _, e := range from.Executions {
		if e.NodeWright == lastOfFive && !e.Ended() {
			e.Node, e.NodeUID, e.Compartment = n.Name, n.UID, group(i)
			e.Name, e.Created = jobName(e.ExecutionKey), e.Created.Add(time.Duration(i)*time.Millisecond)
			n.Executions = append(n.Executions, e)
		}
	}
	return n
}

// inEveryGroup gives every group the batch state of the first one.
func inEveryGroup(ledger fleetv1.LedgerSpec) fleetv1.LedgerSpec {
	out := *ledger.DeepCopy()
	for name, roll := range out.Rollouts {
		one := roll.Compartments[group(0)]
		for i := range groups {
			roll.Compartments[group(i)] = one
		}
		out.Rollouts[name] = roll
	}
	return out
}

// BenchmarkComputeVerified is a pass over a fleet at rest of which every host is verified, and a tenth has drifted; once a day, or
// all due at once.
func BenchmarkComputeVerified(b *testing.B) {
	for name, every := range map[string]time.Duration{"resting": 24 * time.Hour, "due": time.Minute} {
		b.Run(name, func(b *testing.B) {
			in := fleetOf(b, 10000, false)
			in.Now = in.Now.Add(2 * time.Hour)
			for i := range in.NodeWrights {
				in.NodeWrights[i].Spec.VerifyInterval = &metav1.Duration{Duration: every}
			}
			for i := 0; i < len(in.Nodes); i += 10 {
				drift(&in.Nodes[i], in.Now)
			}
			b.ReportAllocs()
			for b.Loop() {
				plan.Compute(in)
			}
		})
	}
}

// drift notes on every record of a node that the host does not match a package any more.
func drift(n *plan.Node, now time.Time) {
	for name, rec := range n.Records {
		rec = rec.Clone()
		pkg := rec.Packages["package-c"]
		pkg.Drift = &noderecord.Drift{Since: now, Stage: nwv1.StageConfig, Message: "another value"}
		rec.Packages["package-c"], rec.Shared = pkg, 0
		n.Records[name] = rec
	}
}
