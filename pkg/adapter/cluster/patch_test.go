package cluster

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

const otherCordon = nwv1.CordonPrefix + "other"

func recordOf(round int64) noderecord.Record {
	return noderecord.Record{NodeWright: "nw-uid", Node: "node-uid", Round: round, Batch: 1}
}

// nodeWith has the record of round 1 and the given annotations.
func nodeWith(unschedulable bool, annotations map[string]string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-1", UID: "node-uid", ResourceVersion: "5", Labels: map[string]string{nwv1.StatusKey("tune"): "complete"},
			Annotations: map[string]string{fleetv1.RecordKey("tune"): noderecord.Encode(recordOf(1))},
		},
		Spec: corev1.NodeSpec{Unschedulable: unschedulable},
	}
	for k, v := range annotations {
		node.Annotations[k] = v
	}
	return node
}

func decision(change func(*plan.Decision)) plan.Decision {
	before := recordOf(1)
	d := plan.Decision{NodeWright: "tune", NodeWrightUID: "nw-uid", Node: "node-1", NodeUID: "node-uid", Before: &before}
	change(&d)
	return d
}

func TestBuildPatchOfACordon(t *testing.T) {
	ours := map[string]string{nwv1.CordonKey("tune"): "true"}
	shared := map[string]string{nwv1.CordonKey("tune"): "true", otherCordon: "true"}
	take := decision(func(d *plan.Decision) { d.Cordon = plan.CordonTake })
	drop := decision(func(d *plan.Decision) { d.Cordon = plan.CordonDrop })
	for name, c := range map[string]struct {
		node *corev1.Node
		d    plan.Decision
		want []string // operation and path, without the two tests that every patch begins with
	}{
		"take": {nodeWith(false, nil), take, []string{
			"test /spec/unschedulable null", "add /metadata/annotations/nodewright.nvidia.com~1cordon_tune \"true\"", "add /spec/unschedulable true"}},
		"take, another owns it too": {nodeWith(true, map[string]string{otherCordon: "true"}), take, []string{
			"test /spec/unschedulable true", "add /metadata/annotations/nodewright.nvidia.com~1cordon_tune \"true\""}},
		"take, somebody else cordoned it since the decision":        {nodeWith(true, nil), take, nil},
		"take, the runtime-required cordon came since the decision": {nodeWith(true, map[string]string{nwv1.RuntimeRequiredCordonAnnotation: "true"}), take, nil},
		"take, somebody lifted the runtime-required cordon and left its mark": {
			nodeWith(false, map[string]string{nwv1.RuntimeRequiredCordonAnnotation: "true"}), take, []string{
				"test /spec/unschedulable null", "add /metadata/annotations/nodewright.nvidia.com~1cordon_tune \"true\"",
				"remove /metadata/annotations/nodewright.nvidia.com~1runtimeRequiredCordon null", "add /spec/unschedulable true"}},
		"drop, the last owner": {nodeWith(true, ours), drop, []string{
			"remove /metadata/annotations/nodewright.nvidia.com~1cordon_tune null", "test /metadata/resourceVersion \"5\"", "remove /spec/unschedulable null"}},
		"drop, another owns it too": {nodeWith(true, shared), drop, []string{
			"remove /metadata/annotations/nodewright.nvidia.com~1cordon_tune null",
			"test /metadata/annotations/nodewright.nvidia.com~1cordon_other \"true\""}},
		"drop, the runtime-required cordon is left": {
			nodeWith(true, map[string]string{nwv1.CordonKey("tune"): "true", nwv1.RuntimeRequiredCordonAnnotation: "true"}), drop,
			[]string{"remove /metadata/annotations/nodewright.nvidia.com~1cordon_tune null",
				"test /metadata/annotations/nodewright.nvidia.com~1runtimeRequiredCordon \"true\""}},
		"drop, somebody uncordoned it": {nodeWith(false, ours), drop, []string{
			"remove /metadata/annotations/nodewright.nvidia.com~1cordon_tune null"}},
		"drop what is not ours": {nodeWith(true, nil), drop, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ops, err := buildPatch(c.node, c.d, "v1")
			require.NoError(t, err)
			if c.want == nil {
				require.Nil(t, ops, "a foreign cordon is left alone")
				return
			}
			require.Equal(t, "/metadata/uid", ops[0].Path)
			require.Equal(t, patchOp{"test", annotationPath(fleetv1.RecordKey("tune")), noderecord.Encode(recordOf(1))}, ops[1])
			require.Equal(t, c.want, words(t, ops[2:]))
		})
	}
}

// An admission on a node that somebody cordoned since the plan is written, for the cordon as it is, and does not claim it.
func TestAnAdmissionDoesNotClaimACordonThatCameSince(t *testing.T) {
	rec := recordOf(2)
	d := decision(func(d *plan.Decision) { d.Cordon, d.Record, d.Status = plan.CordonTake, &rec, nwv1.StatusInProgress })
	ops, err := buildPatch(nodeWith(true, nil), d, "v1")
	require.NoError(t, err)
	paths := words(t, ops)
	require.Contains(t, paths, "test /spec/unschedulable true")
	for _, op := range ops {
		require.NotEqual(t, annotationPath(nwv1.CordonKey("tune")), op.Path)
		require.False(t, op.Op == "add" && op.Path == "/spec/unschedulable")
	}
}

func words(t *testing.T, ops []patchOp) []string {
	t.Helper()
	var out []string
	for _, op := range ops {
		value, err := json.Marshal(op.Value)
		require.NoError(t, err)
		out = append(out, op.Op+" "+op.Path+" "+string(value))
	}
	return out
}

func TestBuildPatchErase(t *testing.T) {
	node := nodeWith(true, map[string]string{
		nwv1.CordonKey("tune"): "true", nwv1.NodeStateKey("tune"): "{}", nwv1.StatusKey("tune"): "erroring", nwv1.StatusKey("fine-tune"): "complete",
	})
	ops, err := buildPatch(node, decision(func(d *plan.Decision) { d.Erase, d.Cordon = true, plan.CordonDrop }), "v1")
	require.NoError(t, err)
	require.Equal(t, []string{
		"remove /metadata/annotations/nodewright.nvidia.com~1cordon_tune null",
		"test /metadata/resourceVersion \"5\"",
		"remove /spec/unschedulable null",
		"remove /metadata/annotations/fleetwright.dev~1record_tune null",
		"remove /metadata/annotations/nodewright.nvidia.com~1nodeState_tune null",
		"remove /metadata/annotations/nodewright.nvidia.com~1status_tune null",
		"remove /metadata/labels/nodewright.nvidia.com~1status_tune null",
	}, words(t, ops[2:]), "keys by their exact names: those of fine-tune stay")
}

// A node that left keeps its record, and no status word.
func TestBuildPatchWithoutAStatus(t *testing.T) {
	record := recordOf(1)
	node := nodeWith(false, map[string]string{nwv1.StatusKey("tune"): "complete"})
	node.Labels = map[string]string{nwv1.StatusKey("tune"): "complete", "pool": "gpu"}
	ops, err := buildPatch(node, decision(func(d *plan.Decision) { d.Record = &record }), "v1")
	require.NoError(t, err)
	all := words(t, ops[2:])
	require.Contains(t, all, "remove /metadata/annotations/nodewright.nvidia.com~1status_tune null")
	require.Contains(t, all, "remove /metadata/labels/nodewright.nvidia.com~1status_tune null")
}

func TestBuildPatchRefusesAnOutdatedView(t *testing.T) {
	next := recordOf(3)
	d := decision(func(d *plan.Decision) { d.Record = &next })
	moved := nodeWith(false, map[string]string{fleetv1.RecordKey("tune"): noderecord.Encode(recordOf(2))})
	_, err := buildPatch(moved, d, "v1")
	require.EqualError(t, err, "the record of nodewright tune changed since the decision")
	gone := nodeWith(false, nil)
	delete(gone.Annotations, fleetv1.RecordKey("tune"))
	_, err = buildPatch(gone, d, "v1")
	require.Error(t, err)
	d.Before = nil
	_, err = buildPatch(nodeWith(false, nil), d, "v1")
	require.Error(t, err, "a record appeared")
}

func TestBuildPatchCreatesMaps(t *testing.T) {
	record := recordOf(1)
	d := decision(func(d *plan.Decision) { d.Before, d.Record, d.Status = nil, &record, nwv1.StatusInProgress })
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "node-uid"}}
	ops, err := buildPatch(bare, d, "v1")
	require.NoError(t, err)
	got := words(t, ops)
	require.Contains(t, got, "test /metadata/annotations null")
	require.Contains(t, got, "add /metadata/annotations {}")
	require.Contains(t, got, "test /metadata/labels null")
	require.Contains(t, got, "add /metadata/labels {}")
}

func TestEscape(t *testing.T) { require.Equal(t, "a~1b~0c", escape("a/b~c")) }

// TestFieldReport_UX01_AResetReplacesEveryKey: whatever keys of a NodeWright a node carries, a reset leaves none with what was in it; those
// of another NodeWright stay as they are.
func TestFieldReport_UX01_AResetReplacesEveryKey(t *testing.T) {
	const stale = "stale"
	keys := []string{fleetv1.RecordKey("tune"), nwv1.NodeStateKey("tune"), nwv1.StatusKey("tune"), nwv1.VersionKey("tune")}
	node := nodeWith(false, nil)
	node.Labels[nwv1.StatusKey("tune")] = stale
	for _, key := range keys {
		node.Annotations[key] = stale
		node.Annotations[key+"-other"] = "kept"
	}
	fresh := noderecord.Record{NodeWright: "nw-uid", Node: "node-uid", Round: 7}
	d := decision(func(d *plan.Decision) {
		d.Action, d.Record, d.Before, d.Status = plan.ActionReset, &fresh, nil, nwv1.StatusWaiting
	})
	ops, err := buildPatch(node, d, "v1")
	require.NoError(t, err)
	written := map[string]bool{}
	for _, op := range ops {
		require.NotContains(t, op.Path, "other")
		if op.Op != "test" {
			require.NotEqual(t, stale, op.Value)
			written[op.Path] = true
		}
	}
	for _, key := range keys {
		require.True(t, written[annotationPath(key)], key)
	}
	require.True(t, written["/metadata/labels/"+escape(nwv1.StatusKey("tune"))])
}
