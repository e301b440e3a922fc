package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func TestBuildPatchUntaints(t *testing.T) {
	added := metav1.NewTime(time.Unix(1_700_000_000, 0).UTC())
	gate := corev1.Taint{Key: nwv1.RuntimeRequiredTaintKey, Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	legacy := corev1.Taint{Key: nwv1.LegacyGroup, Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	foreign := corev1.Taint{Key: "foreign", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	timed, otherValue, otherEffect := gate, gate, gate
	timed.TimeAdded = &added
	otherValue.Value = "another"
	otherEffect.Effect = corev1.TaintEffectNoExecute
	const (
		gateJSON   = `{"key":"nodewright.nvidia.com","value":"runtime-required","effect":"NoSchedule"}`
		legacyJSON = `{"key":"skyhook.nvidia.com","value":"runtime-required","effect":"NoSchedule"}`
		timedJSON  = `{"key":"nodewright.nvidia.com","value":"runtime-required","effect":"NoSchedule","timeAdded":"2023-11-14T22:13:20Z"}`
		mark       = "add /metadata/annotations/nodewright.nvidia.com~1runtimeRequiredCordon \"true\""
	)
	owned := map[string]string{otherCordon: "true"}
	for name, c := range map[string]struct {
		taints   []corev1.Taint
		after    bool
		cordoned bool
		has      map[string]string
		want     []string
	}{
		"one of several": {taints: []corev1.Taint{foreign, gate, foreign}, want: []string{
			"test /spec/taints/1 " + gateJSON, "remove /spec/taints/1 null"}},
		"both names, from the back": {taints: []corev1.Taint{gate, foreign, legacy}, want: []string{
			"test /spec/taints/2 " + legacyJSON, "remove /spec/taints/2 null", "test /spec/taints/0 " + gateJSON, "remove /spec/taints/0 null"}},
		"with the time when it was added": {taints: []corev1.Taint{timed}, want: []string{
			"test /spec/taints/0 " + timedJSON, "remove /spec/taints/0 null"}},
		"another value or effect is another taint": {taints: []corev1.Taint{otherValue, otherEffect}, after: true},
		"gone already": {after: true},
		"cordon in its place": {taints: []corev1.Taint{gate}, after: true, want: []string{
			"test /spec/taints/0 " + gateJSON, "remove /spec/taints/0 null", "test /spec/unschedulable null", mark, "add /spec/unschedulable true"}},
		"cordon in its place, a NodeWright's cordon is there": {taints: []corev1.Taint{gate}, after: true, cordoned: true, has: owned, want: []string{
			"test /spec/taints/0 " + gateJSON, "remove /spec/taints/0 null", "test /spec/unschedulable true", mark}},
		"cordon in its place, somebody else's cordon is there": {taints: []corev1.Taint{gate}, after: true, cordoned: true, want: []string{
			"test /spec/taints/0 " + gateJSON, "remove /spec/taints/0 null"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(c.cordoned, c.has)
			node.Spec.Taints = c.taints
			ops, err := buildPatch(node, decision(func(d *plan.Decision) {
				d.Action, d.Untaint, d.CordonAfter = plan.ActionUngate, []corev1.Taint{gate, legacy}, c.after
			}), "v1")
			require.NoError(t, err)
			if c.want == nil {
				require.Nil(t, ops, "nothing is written")
				return
			}
			require.Equal(t, []patchOp{
				{"test", "/metadata/uid", "node-uid"},
				{"test", annotationPath(fleetv1.RecordKey("tune")), noderecord.Encode(recordOf(1))},
			}, ops[:2])
			require.Equal(t, c.want, words(t, ops[2:]))
		})
	}
}

// A taint is added as one entry, with the mark that says whose it is; what is there already is left alone.
func TestPatchOfATaint(t *testing.T) {
	gate := corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	entry := `{"key":"nodewright.nvidia.com","value":"runtime-required","effect":"NoSchedule"}`
	mark := `add /metadata/annotations/nodewright.nvidia.com~1autoTaint_nodewright.nvidia.com "true"`
	for name, c := range map[string]struct {
		taints []corev1.Taint
		want   []string
	}{
		"the first one":    {nil, []string{mark, "test /spec/taints null", "add /spec/taints [" + entry + "]"}},
		"beside others":    {[]corev1.Taint{{Key: "other", Effect: corev1.TaintEffectNoExecute}}, []string{mark, "add /spec/taints/- " + entry}},
		"it is there":      {[]corev1.Taint{gate}, nil},
		"in another value": {[]corev1.Taint{{Key: gate.Key, Value: "x", Effect: gate.Effect}}, nil}, // the API allows one of each key and effect
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith(false, map[string]string{})
			node.Spec.Taints = c.taints
			ops, err := buildPatch(node, decision(func(d *plan.Decision) { d.Action, d.Taint = plan.ActionGate, &gate }), "v1")
			require.NoError(t, err)
			if c.want == nil {
				require.Nil(t, ops)
				return
			}
			require.Equal(t, c.want, words(t, ops[2:]))
		})
	}
}
