package rollout

import (
	"encoding/json"
	"strings"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// operation is one operation of a JSON patch in the API server's log.
type operation struct {
	Op, Path string
	Value    json.RawMessage
}

// operations of a patch of a node, those that only test left out if asked for.
func (w *world) operations(e cluster.AuditEvent, writing bool) []operation {
	w.t.Helper()
	var all, out []operation
	require.NoError(w.t, json.Unmarshal(e.Request, &all))
	for _, op := range all {
		if !writing || op.Op != "test" {
			out = append(out, op)
		}
	}
	return out
}

// cordonedNodes are the nodes that an accepted patch made unschedulable, in the order of the patches.
func (w *world) cordonedNodes() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.requests(cluster.Match{Verb: "patch", Resource: "nodes"}) {
		if cordons(e) {
			out = append(out, e.Name)
		}
	}
	return out
}

// clusterWideLists are the reconciler's lists of pods over the whole cluster, without those of a single node.
func (w *world) clusterWideLists() int {
	w.t.Helper()
	n := 0
	for _, e := range w.requests(cluster.Match{Verb: "list", Resource: "pods"}) {
		if e.Namespace == "" && !strings.Contains(e.URI, "spec.nodeName") {
			n++
		}
	}
	return n
}

// because finds a reason on the status.
func because(nw *nwv1.NodeWright, code plan.Code) (message string, nodes []string) {
	for _, r := range nw.Status.Reasons {
		if r.Reason == string(code) {
			return r.Message, r.Nodes
		}
	}
	return "", nil
}

// hasReason says that the status gives this reason for these nodes.
func hasReason(code plan.Code, nodes ...string) func(*nwv1.NodeWright) bool {
	return func(nw *nwv1.NodeWright) bool {
		_, have := because(nw, code)
		return len(have) > 0 && strings.Join(have, " ") == strings.Join(nodes, " ")
	}
}
