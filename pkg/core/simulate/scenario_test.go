package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

var begin = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

// fleet are objects of a test, put together with few words.
type fleet struct {
	t       require.TestingT
	objects simulate.Objects
}

// nodeWright adds a NodeWright over `pool: gpu` with one package.
func (f *fleet) nodeWright(name string, change ...func(*nwv1.NodeWright)) *fleet {
	nw := &nwv1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.NodeWrightSpec{
			NodeSelectors: metav1.LabelSelector{MatchLabels: map[string]string{"pool": "gpu"}},
			Priority:      nwv1.DefaultPriority,
			Packages:      map[string]nwv1.Package{"tuning": {Version: "1.0.0", Image: "example.com/tuning"}},
		},
	}
	for _, c := range change {
		c(nw)
	}
	f.objects.NodeWrights = append(f.objects.NodeWrights, nw)
	return f
}

// policy adds a policy and gives it to the NodeWright that was added last.
func (f *fleet) policy(b nwv1.DeploymentBudget, s *nwv1.DeploymentStrategy, compartments ...nwv1.Compartment) *fleet {
	name := fmt.Sprint("policy-", len(f.objects.Policies))
	f.objects.Policies = append(f.objects.Policies, &nwv1.DeploymentPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nwv1.DeploymentPolicySpec{
			Default: nwv1.PolicyDefault{Budget: b, Strategy: s}, Compartments: compartments,
		},
	})
	f.objects.NodeWrights[len(f.objects.NodeWrights)-1].Spec.DeploymentPolicy = name
	return f
}

func (f *fleet) resolved() []plan.NodeWright {
	return simulate.NodeWrights(f.objects, fleetv1.LedgerSpec{}, nil)
}

// scenario of the objects over n nodes n01, n02 …
func (f *fleet) scenario(n int) simulate.Scenario {
	sc := simulate.Scenario{Start: begin, NodeWrights: f.resolved(), Settings: plan.Settings{StageTimeout: time.Hour}}
	for _, nw := range sc.NodeWrights {
		require.Empty(f.t, nw.Problem)
	}
	for i := range n {
		name := fmt.Sprintf("n%02d", i+1)
		sc.Nodes = append(sc.Nodes, plan.Node{
			Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"pool": "gpu"}, Ready: true, BootID: "b",
		})
	}
	return sc
}

func interrupt(kind nwv1.InterruptType) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) {
		p := nw.Spec.Packages["tuning"]
		p.Interrupt = &nwv1.Interrupt{Type: kind}
		if kind == nwv1.InterruptService {
			p.Interrupt.Services = []string{"containerd"}
		}
		nw.Spec.Packages["tuning"] = p
	}
}

func budgetOnly(n int32) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) { nw.Spec.InterruptionBudget = &nwv1.InterruptionBudget{Count: &n} }
}

func priority(n int32) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) { nw.Spec.Priority = n }
}

func count(n int32) nwv1.DeploymentBudget   { return nwv1.DeploymentBudget{Count: &n} }
func percent(n int32) nwv1.DeploymentBudget { return nwv1.DeploymentBudget{Percent: &n} }

func fixed(initial int32, more ...func(*nwv1.BatchRules)) *nwv1.DeploymentStrategy {
	return &nwv1.DeploymentStrategy{Fixed: &nwv1.FixedStrategy{BatchRules: rules(initial, more)}}
}

func linear(initial, delta int32, more ...func(*nwv1.BatchRules)) *nwv1.DeploymentStrategy {
	return &nwv1.DeploymentStrategy{Linear: &nwv1.LinearStrategy{BatchRules: rules(initial, more), Delta: delta}}
}

func exponential(initial, factor int32, more ...func(*nwv1.BatchRules)) *nwv1.DeploymentStrategy {
	return &nwv1.DeploymentStrategy{Exponential: &nwv1.ExponentialStrategy{BatchRules: rules(initial, more), GrowthFactor: factor}}
}

func rules(initial int32, more []func(*nwv1.BatchRules)) nwv1.BatchRules {
	r := nwv1.BatchRules{InitialBatch: initial}
	for _, f := range more {
		f(&r)
	}
	return r
}

func failureThreshold(n int32) func(*nwv1.BatchRules) {
	return func(r *nwv1.BatchRules) { r.FailureThreshold = &n }
}

func batchThreshold(n int32) func(*nwv1.BatchRules) {
	return func(r *nwv1.BatchRules) { r.BatchThreshold = n }
}

// sizes are the numbers of nodes in the batches of a compartment.
func sizes(c simulate.Compartment) []int {
	var out []int
	for _, b := range c.Batches {
		out = append(out, len(b.Nodes))
	}
	return out
}

func verdicts(c simulate.Compartment) []simulate.Verdict {
	var out []simulate.Verdict
	for _, b := range c.Batches {
		out = append(out, b.Verdict)
	}
	return out
}

// only is the only rollout of a result.
func only(t *testing.T, r simulate.Result) simulate.Rollout {
	t.Helper()
	require.Empty(t, r.Problem)
	require.Len(t, r.Rollouts, 1)
	return r.Rollouts[0]
}
