package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

func TestIsConflict(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	require.True(t, isConflict(apierrors.NewGenericServerResponse(422, "patch", nodes, "n", "test failed", 0, false)), "a failed test")
	require.True(t, isConflict(apierrors.NewConflict(nodes, "n", nil)))
	require.True(t, isConflict(apierrors.NewNotFound(nodes, "n")))
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", nil)
	invalid.ErrStatus.Details.Causes = []metav1.StatusCause{{Field: "metadata.annotations", Message: "Too long"}}
	require.False(t, isConflict(invalid), "content that is refused is an error: no retry cures it")
	require.False(t, isConflict(nil))
}

func TestNodeView(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "uid", Annotations: map[string]string{
			fleetv1.RecordKey("good"):    noderecord.Encode(noderecord.Record{Node: "uid", Round: 2}),
			fleetv1.RecordKey("earlier"): noderecord.Encode(noderecord.Record{Node: "another machine", Round: 9}),
			fleetv1.RecordKey("bad"):     "{",
			fleetv1.RecordKey("newer"):   `{"schema":2,"node":"uid"}`,
			fleetv1.VerbKey("regate"):    "1", fleetv1.VerbKey("other"): "1",
			nwv1.CordonKey("b"): "true", nwv1.CordonKey("a"): "true", nwv1.CordonKey("no"): "false",
		},
	}}
	got := NodeView(node)
	require.Equal(t, int64(2), got.Records["good"].Round)
	require.Len(t, got.Records, 1, "a record of an earlier machine of the name counts for nothing")
	require.Equal(t, "read record: unexpected end of JSON input", got.Malformed["bad"])
	require.Contains(t, got.Malformed["newer"], "of a newer version of Fleetwright")
	require.Equal(t, []string{"newer"}, got.Newer)
	require.Equal(t, map[string]string{"regate": "1"}, got.Requests)
	require.Equal(t, []string{"a", "b"}, got.CordonOwners)
	require.False(t, got.Ready)
}

func TestNodeViewsDecodeOncePerChange(t *testing.T) {
	var v nodeViews
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid", ResourceVersion: "1"}}
	require.Equal(t, "n", v.of([]corev1.Node{node})[0].Name)
	node.Labels = map[string]string{"a": "b"}
	require.Empty(t, v.of([]corev1.Node{node})[0].Labels, "the same version is not translated again")
	node.ResourceVersion = "2"
	require.Equal(t, "b", v.of([]corev1.Node{node})[0].Labels["a"])
	require.Empty(t, v.of(nil))
	require.Empty(t, v.seen, "what is gone is forgotten")
}

func TestTrimNodeKeepsWhatAPatchNeeds(t *testing.T) {
	full := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "uid", ResourceVersion: "7", Annotations: map[string]string{"foreign": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{}},
	}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{}}}}
	got, err := trimNode(full)
	require.NoError(t, err)
	node, ok := got.(*corev1.Node)
	require.True(t, ok)
	require.Empty(t, node.Annotations)
	require.NotNil(t, node.Annotations, "the map is there on the server: it must not be created again")
	require.Empty(t, node.Status.Images)
	require.Equal(t, "7", node.ResourceVersion)
	require.NotEmpty(t, full.Annotations, "the object that came in is not changed")
}

func TestBudgetOfFleet(t *testing.T) {
	fleet := func(limit intstr.IntOrString, selector *metav1.LabelSelector) *fleetv1.Fleet {
		return &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "f"}, Spec: fleetv1.FleetSpec{
			Disruption: &fleetv1.Disruption{MaxNodes: &limit}, Scope: &fleetv1.Scope{NodeSelector: selector},
		}}
	}
	b, ok := budgetOfFleet(fleet(intstr.FromString("10%"), &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}))
	require.True(t, ok)
	require.Equal(t, "ns/f", b.Name)
	require.Equal(t, int32(10), *b.Percent)
	require.Nil(t, b.Count)
	require.True(t, b.Scope.Matches(labels.Set{"pool": "gpu"}))
	require.False(t, b.Scope.Matches(labels.Set{"pool": "cpu"}))
	b, _ = budgetOfFleet(fleet(intstr.FromInt32(3), nil))
	require.Equal(t, int32(3), *b.Count)
	b, _ = budgetOfFleet(fleet(intstr.FromString("many"), nil))
	require.Zero(t, *b.Count, "what cannot be read admits nobody")
	_, ok = budgetOfFleet(&fleetv1.Fleet{})
	require.False(t, ok)
}

func TestResolve(t *testing.T) {
	gold := &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}}
	refs := references{
		References: plan.References{
			Policies: map[string]*nwv1.DeploymentPolicy{"gold": {}}, Packages: map[string]*fleetv1.Package{},
		},
		fleets: map[client.ObjectKey]*fleetv1.Fleet{{Namespace: "ns", Name: "f"}: {Spec: fleetv1.FleetSpec{Scope: &fleetv1.Scope{NodeSelector: gold}}}},
	}
	nw := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{
		Name: "tune", Labels: map[string]string{fleetv1.FleetNamespaceLabel: "ns", fleetv1.FleetNameLabel: "f"},
		Annotations: map[string]string{nwv1.PauseAnnotation: "true", fleetv1.VerbKey("resume"): "t1"},
	}, Spec: nwv1.NodeWrightSpec{DeploymentPolicy: "gold"}}
	got := refs.resolve(nw)
	require.Empty(t, got.Problem)
	require.True(t, got.Paused)
	require.Equal(t, "t1", got.Resume)
	require.NotNil(t, got.Policy)
	require.False(t, got.Scope.Matches(labels.Set{"pool": "cpu"}), "the Fleet's scope narrows the selection")
	nw.Spec.DeploymentPolicy = "silver"
	nw.Spec.NodeSelectors = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	nw.Spec.Packages = map[string]nwv1.Package{"x": {PackageRef: &nwv1.PackageReference{Name: "missing"}}}
	require.Equal(t, `spec.packages.x.packageRef.name: Package "missing" does not exist; `+
		`spec.deploymentPolicy: DeploymentPolicy "silver" does not exist; `+
		`spec.nodeSelectors: "Near" is not a valid label selector operator`, refs.resolve(nw).Problem)
}

func TestTroubleIsStampedOnce(t *testing.T) {
	var v jobViews
	see := func(code plan.Code, minute int) plan.Execution {
		e := []plan.Execution{{Trouble: code}}
		v.stamp(e, []types.UID{"job"}, start.Add(time.Duration(minute)*time.Minute))
		return e[0]
	}
	require.Equal(t, start.Time, see(plan.ImagePull, 0).TroubleSince)
	require.Equal(t, start.Time, see(plan.ImagePull, 5).TroubleSince, "it began then")
	require.Equal(t, start.Add(time.Duration(6)*time.Minute), see(plan.InsufficientResources, 6).TroubleSince, "another trouble begins anew")
	require.Zero(t, see("", 7).TroubleSince)
	require.Equal(t, start.Add(time.Duration(8)*time.Minute), see(plan.ImagePull, 8).TroubleSince, "what was over begins anew")
}
