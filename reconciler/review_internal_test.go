package reconciler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
)

// TestPackagesCountForTheLimit: a NodeWright may have 64 packages, and each of them is something to remember of each node.
func TestPackagesCountForTheLimit(t *testing.T) {
	in := preview.Input{Nodes: make([]plan.Node, 2_000)}
	for range 100 {
		nw := &nwv1.NodeWright{}
		nw.Spec.Packages = map[string]nwv1.Package{}
		for j := range 40 {
			nw.Spec.Packages[fmt.Sprint(j)] = nwv1.Package{}
		}
		in.Head.NodeWrights = append(in.Head.NodeWrights, nw)
	}
	require.NoError(t, tooMany(in), "2 000 nodes, 4 000 packages")
	in.Head.NodeWrights = append(in.Head.NodeWrights, in.Head.NodeWrights[0])
	require.EqualError(t, tooMany(in), "too large to plan: 4040 packages of NodeWrights on 2000 nodes are too many (allowed: 8000000 pairs, old and new)")
}
