package reconciler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// yielding is a world of three nodes with protected pods, and a NodeWright that leaves such nodes alone.
func yielding(t *testing.T) (*rolloutWorld, *Rollout) {
	w, r := newRolloutWorld(t)
	object := &nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{
		Packages: map[string]nwv1.Package{"tuning": {
			Version: "1.0.0", Image: "x", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot},
		}},
		PodNonInterruptLabels: metav1.LabelSelector{MatchLabels: map[string]string{"protected": "true"}},
		ProtectedPods:         nwv1.ProtectedPodsYield,
	}}
	set, problems := desired.Resolve(object, nil)
	require.Empty(t, problems)
	w.in.NodeWrights[0].Spec, w.in.NodeWrights[0].Desired = object.Spec, set
	w.protected = map[string]string{"n1": "ml/a", "n2": "ml/b", "n3": "ml/c"}
	return w, r
}

func (w *rolloutWorld) count(entry string) int {
	n := 0
	for _, e := range w.log {
		if e == entry {
			n++
		}
	}
	return n
}

// Whatever wakes the loop, the pods of the cluster are not listed more often than that; and nobody is admitted on what was
// seen a moment ago.
func TestTheClustersPodsAreLookedAtSeldomAndBeforeEachAdmission(t *testing.T) {
	w, r := yielding(t)
	for range 5 {
		_, err := r.Pass(t.Context())
		require.NoError(t, err)
		w.now = w.now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 1, w.count("look for protected pods"))
	delete(w.protected, "n2")
	_, err := r.Pass(t.Context())
	require.NoError(t, err)
	require.Zero(t, w.count("Admit n2"), "what was seen a moment ago is good enough to wait by")
	w.now = w.now.Add(occupancyFor)
	_, err = r.Pass(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, w.count("Admit n2"))

	w, r = yielding(t)
	delete(w.protected, "n2")
	w.fail = nil
	_, err = r.Pass(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, w.count("Admit n2"))
	for i := range w.in.Nodes { // the admission is lost; a pod arrives
		w.in.Nodes[i].Records = nil
	}
	w.ledger.Rollouts, w.protected["n2"], w.log = nil, "ml/b", nil
	r.memory.version = ""
	_, err = r.Pass(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, w.count("look for protected pods"), "before it admits it looks again")
	require.Zero(t, w.count("Admit n2"))
}

func TestNobodyIsAdmittedWhereThePodsCannotBeSeen(t *testing.T) {
	w, r := yielding(t)
	w.blind, w.protected = errors.New("forbidden"), nil
	_, err := r.Pass(t.Context())
	require.EqualError(t, err, "look which nodes have protected pods: forbidden")
	require.Zero(t, w.count("Admit n1")+w.count("Admit n2")+w.count("Admit n3"))
}

// What was remembered stays what it is for the whole pass: also when the plan is made again because of something else.
func TestAPlanThatIsMadeAgainAdmitsNobodyOnWhatIsRemembered(t *testing.T) {
	w, r := yielding(t)
	_, err := r.Pass(t.Context())
	require.NoError(t, err)
	in, err := r.gather(t.Context())
	require.NoError(t, err)
	recalled := map[string]plan.OccupancyQuery{}
	_, err = r.compute(t.Context(), &in, recalled)
	require.NoError(t, err)
	require.Equal(t, 1, w.count("look for protected pods"), "the answer of the pass before is good enough to wait by")
	in.Nodes = append(in.Nodes, plan.Node{Name: "n4", UID: "n4", Ready: true})
	w.protected["n4"] = "ml/d"
	out, err := r.compute(t.Context(), &in, recalled)
	require.NoError(t, err)
	require.Equal(t, 2, w.count("look for protected pods"))
	for _, d := range out.Decisions {
		require.NotEqual(t, "n4", d.Node)
	}
}

// One answer may bring up the next question.
func TestEveryQuestionOfAPassIsAnswered(t *testing.T) {
	w, r := yielding(t)
	second := w.in.NodeWrights[0]
	second.Name, second.UID = "second", "second"
	w.in.NodeWrights = append(w.in.NodeWrights, second)
	w.protected = nil
	in, err := r.gather(t.Context())
	require.NoError(t, err)
	out, err := r.plan(t.Context(), &in)
	require.NoError(t, err)
	require.Empty(t, out.NeedOccupancy)
}

func TestHousekeepingAsksForAnotherOwner(t *testing.T) {
	w, r := newRolloutWorld(t)
	r.Standby = func(context.Context) (string, error) { return "NVIDIA's operator is active", nil }
	r.memory.looked = true // at the start there was none
	in := plan.Input{Now: noon, Orphans: []plan.Execution{{Name: "job", State: plan.ExecutionRunning}}}
	require.NoError(t, r.strand(t.Context(), in))
	require.Empty(t, w.log)
	require.Equal(t, "NVIDIA's operator is active", r.memory.standby, "and the next pass says so")
}
