package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestFieldReport_AC07_StatusAndAnnotationsAreBounded lets ten packages fail on each of 5000 nodes with messages of 4 KiB. The
// status of the object and the annotations of a node stay far below what the API server takes.
func TestFieldReport_AC07_StatusAndAnnotationsAreBounded(t *testing.T) {
	const nodes, packages = 5000, 10
	object := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "tune", UID: "nw", Generation: 1}}
	object.Spec.Packages = map[string]nwv1.Package{}
	for i := range packages {
		object.Spec.Packages[fmt.Sprintf("package-%c", 'a'+i)] = nwv1.Package{Version: "1.0.0", Image: "example.com/package"}
	}
	set, problems := desired.Resolve(object, nil)
	require.Empty(t, problems)
	in := plan.Input{
		Now: noon, Settings: plan.Settings{Attempts: 1},
		NodeWrights: []plan.NodeWright{{Name: "tune", UID: "nw", Generation: 1, Spec: object.Spec, Desired: set}},
	}
	for i := range nodes {
		name := fmt.Sprintf("a-node-with-a-long-name-%04d.example.internal", i)
		in.Nodes = append(in.Nodes, plan.Node{
			Name: name, UID: types.UID(name), Ready: true, PodsListed: true, Records: map[string]noderecord.Record{},
		})
	}
	out := failEverything(in, 8)
	require.Equal(t, int32(nodes), out.Statuses[0].Failed)
	require.Equal(t, packages, len(in.Nodes[0].Records["tune"].Packages))

	status := NodeWrightStatus(out.Statuses[0], nwv1.NodeWrightStatus{}, nil, noon)
	text, err := json.Marshal(status)
	require.NoError(t, err)
	require.Less(t, len(text), 256<<10)
	for _, n := range in.Nodes {
		size := 0
		for key, value := range noderecord.Annotations("tune", n.Records["tune"], nwv1.StatusErroring, "dev") {
			size += len(key) + len(value)
		}
		require.Less(t, size, 64<<10, n.Name)
	}
	for _, e := range StatusEvents(nwv1.NodeWrightStatus{}, out.Statuses[0]) {
		require.LessOrEqual(t, len(e.Note), 1024)
	}
}

// failEverything makes passes in which whatever starts fails with a long message.
func failEverything(in plan.Input, passes int) plan.Output {
	at := map[string]*plan.Node{}
	for i := range in.Nodes {
		at[in.Nodes[i].Name] = &in.Nodes[i]
	}
	var out plan.Output
	for range passes {
		out = plan.Compute(in)
		if out.Ledger != nil {
			in.Ledger = *out.Ledger
		}
		for _, d := range out.Decisions {
			n := at[d.Node]
			if d.Record != nil {
				n.Records = maps.Clone(n.Records)
				n.Records[d.NodeWright] = *d.Record
			}
			for _, s := range d.Start {
				n.Executions = append(n.Executions, plan.Execution{
					ExecutionKey: s.ExecutionKey, Name: string(n.UID) + s.Package, Node: n.Name, Compartment: s.Compartment, Batch: s.Batch,
					State: plan.ExecutionFailed, Stage: nwv1.StageApply, ExitCode: 1, Message: strings.Repeat("no space left. ", 280),
					Created: in.Now, Finished: in.Now,
				})
			}
		}
	}
	return out
}
