package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// A taint that cannot be set is told of on the node, and nothing begins there.
func TestATaintThatCannotBeSetIsAWarning(t *testing.T) {
	w, r := newRolloutWorld(t)
	spec := &w.in.NodeWrights[0].Spec
	spec.RuntimeRequired, spec.AutoTaintNewNodes = true, true
	w.in.NodeWrights[0].Created = noon.Add(-time.Hour)
	w.in.Nodes[1].Created = noon.Add(-time.Minute)
	w.in.Nodes = w.in.Nodes[1:2]
	w.fail = fmt.Errorf("patch node n1: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("no taints here")))
	_, err := r.Pass(context.Background())
	require.ErrorContains(t, err, "Gate node n1 for nodewright tune")
	require.Equal(t, []string{"ledger written", "Gate n1", "status waiting"}, w.log)
	i := slices.IndexFunc(w.events, func(e report.RolloutEvent) bool { return e.Reason == report.EventAutoTaint })
	require.GreaterOrEqual(t, i, 0)
	last := w.events[i]
	require.True(t, last.Warning)
	require.Equal(t, report.Object{Kind: "Node", Name: "n1", UID: "n1"}, last.About)
	require.Equal(t, "the taint nodewright.nvidia.com=runtime-required:NoSchedule cannot be set, and nothing begins before it is: "+
		`nodes "n1" is forbidden: no taints here`, last.Note)
}
