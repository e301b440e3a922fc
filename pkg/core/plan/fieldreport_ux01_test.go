package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// errorStates are the reasons of nodes that do not go on by themselves, or only after a long time.
var errorStates = []plan.Code{
	plan.PackageFailed, plan.OutOfMemory, plan.StageTimeout, plan.InterruptFailed, plan.DrainTimeout, plan.ProtectedPodTimeout, plan.ImagePull,
	plan.ContainerCannotRun, plan.CrashLoop, plan.NoPod, plan.PodNotAcknowledged, plan.PodRefused, plan.Disrupted, plan.InterruptRefused,
	plan.InsufficientResources, plan.RetryBackoff, plan.RecordUnreadable, plan.NotAdopted, plan.Halted, plan.PodStuck, plan.DrainBlocked,
	plan.EvictionFailed, plan.DisruptionBudget,
}

// TestFieldReport_UX01_OneResetEndsEveryErrorState: a node is brought into each state of error, its cause goes away, and one reset, asked
// once and then again with the same token, brings everything to the end without another step. Nothing of the failed attempt is left.
func TestFieldReport_UX01_OneResetEndsEveryErrorState(t *testing.T) {
	for _, code := range errorStates {
		t.Run(string(code), func(t *testing.T) {
			w := newWorld(t, 2)
			reasonCases[code].arrange(w)
			w.pass()
			require.Equal(t, code, w.reason("tune", reasonCases[code].node).Code)
			w.causesEnd()
			for range 2 {
				w.edit("tune", func(nw *plan.NodeWright) { nw.Reset = "heal" })
				w.settle()
			}
			require.Equal(t, nwv1.StatusComplete, w.status("tune").Status, "%+v", w.last.Reasons)
			require.Empty(t, w.outOfService())
			require.Empty(t, w.status("tune").Failures)
			for name, n := range w.nodes {
				rec := n.Records["tune"]
				require.Nil(t, rec.Failure, name)
				require.Nil(t, rec.Interrupt, name)
				require.Empty(t, n.CordonOwners, name)
				require.Empty(t, n.Malformed, name)
				for _, p := range rec.Packages {
					require.Zero(t, p.Failures, name)
					require.Nil(t, p.Setback, name)
					require.Empty(t, p.Running, name)
					require.Equal(t, nwv1.StateComplete, p.State, name)
				}
			}
		})
	}
}

// causesEnd: what made the trouble is mended outside; what was noted of it stays.
func (w *world) causesEnd() {
	w.fails, w.dies, w.frozen, w.lost, w.leaves, w.occupancyOf = nil, nil, nil, nil, nil, nil
	w.pods, w.bound = map[string][]*corev1.Pod{}, nil
	for _, j := range w.jobs {
		j.Trouble, j.TroubleMessage = "", ""
	}
}
