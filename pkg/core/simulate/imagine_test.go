package simulate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

func selects(expressions ...metav1.LabelSelectorRequirement) func(*nwv1.NodeWright) {
	return func(nw *nwv1.NodeWright) { nw.Spec.NodeSelectors.MatchExpressions = expressions }
}

func expression(key string, op metav1.LabelSelectorOperator, values ...string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: op, Values: values}
}

func compartment(name, key, value string, change ...func(*nwv1.Compartment)) nwv1.Compartment {
	c := nwv1.Compartment{
		Name: name, Selector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}, Budget: count(1), Strategy: fixed(1),
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestImagine(t *testing.T) {
	type labels = map[string]string
	for _, c := range []struct {
		name  string
		fleet func(*fleet)
		sizes simulate.Sizes
		want  []simulate.Group
		err   string
	}{
		{name: "one NodeWright", fleet: func(f *fleet) { f.nodeWright("a") }, sizes: simulate.Sizes{Total: 3},
			want: []simulate.Group{{Count: 3, First: "node-01", Last: "node-03", Labels: labels{"pool": "gpu"}}}},
		{name: "evenly over the compartments, the remainder to the first", fleet: func(f *fleet) {
			f.nodeWright("a").policy(count(1), fixed(1), compartment("canary", "tier", "canary"), compartment("rest", "tier", "rest"))
		}, sizes: simulate.Sizes{Total: 11}, want: []simulate.Group{
			{Count: 4, First: "node-01", Last: "node-04", Labels: labels{"pool": "gpu", "tier": "canary"}, Compartment: "canary"},
			{Count: 4, First: "node-05", Last: "node-08", Labels: labels{"pool": "gpu", "tier": "rest"}, Compartment: "rest"},
			{Count: 3, First: "node-09", Last: "node-11", Labels: labels{"pool": "gpu"}},
		}},
		{name: "by compartment", fleet: func(f *fleet) {
			f.nodeWright("a").policy(count(1), fixed(1), compartment("canary", "tier", "canary"), compartment("rest", "tier", "rest"))
		}, sizes: simulate.Sizes{ByCompartment: map[string]int{"rest": 1, "default": 2}}, want: []simulate.Group{
			{Count: 1, First: "node-01", Last: "node-01", Labels: labels{"pool": "gpu", "tier": "rest"}, Compartment: "rest"},
			{Count: 2, First: "node-02", Last: "node-03", Labels: labels{"pool": "gpu"}},
		}},
		{name: "an unknown compartment", fleet: func(f *fleet) {
			f.nodeWright("a").policy(count(1), fixed(1), compartment("canary", "tier", "canary"))
		}, sizes: simulate.Sizes{ByCompartment: map[string]int{"canry": 1}},
			err: `compartment "canry" does not exist (allowed: canary, default)`},
		{name: "expressions", fleet: func(f *fleet) {
			f.nodeWright("a", selects(expression("zone", "In", "z1", "z2"), expression("gpu", "Exists"), expression("old", "DoesNotExist"),
				expression("pool", "NotIn", "cpu")))
		}, sizes: simulate.Sizes{Total: 1}, want: []simulate.Group{
			{Count: 1, First: "node-01", Last: "node-01", Labels: labels{"pool": "gpu", "zone": "z1", "gpu": "true"}}}},
		{name: "NodeWrights that can share nodes do", fleet: func(f *fleet) {
			f.nodeWright("a", selects(expression("zone", "In", "z1", "z2"))).nodeWright("b", selects(expression("gpu", "Exists")))
		}, sizes: simulate.Sizes{Total: 1}, want: []simulate.Group{
			{Count: 1, First: "node-01", Last: "node-01", Labels: labels{"pool": "gpu", "zone": "z1", "gpu": "true"}}}},
		{name: "NodeWrights that cannot do not", fleet: func(f *fleet) {
			f.nodeWright("a", selects(expression("zone", "DoesNotExist"))).nodeWright("b", selects(expression("zone", "Exists")))
		}, sizes: simulate.Sizes{Total: 2}, want: []simulate.Group{
			{Count: 1, First: "node-01", Last: "node-01", Labels: labels{"pool": "gpu"}},
			{Count: 1, First: "node-02", Last: "node-02", Labels: labels{"pool": "gpu", "zone": "true"}}}},
		{name: "a compartment that the NodeWright's selector rules out gets none", fleet: func(f *fleet) {
			f.nodeWright("a").policy(count(1), fixed(1), compartment("cpu", "pool", "cpu"))
		}, sizes: simulate.Sizes{Total: 2}, want: []simulate.Group{{Count: 2, First: "node-01", Last: "node-02", Labels: labels{"pool": "gpu"}}}},
		{name: "a selector that contradicts itself", fleet: func(f *fleet) {
			f.nodeWright("a", selects(expression("pool", "DoesNotExist")))
		}, err: `nodewright a: spec.nodeSelectors: no labels were found that match "pool=gpu,!pool"`},
		{name: "no NodeWright", fleet: func(*fleet) {}, err: "there is no NodeWright to imagine nodes for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fleet{t: t}
			c.fleet(f)
			nodes, groups, err := simulate.Imagine(f.resolved(), c.sizes)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, groups)
			i := 0
			for _, g := range groups {
				for range g.Count {
					require.Equal(t, g.Labels, nodes[i].Labels)
					i++
				}
			}
			require.Len(t, nodes, i)
		})
	}
}

// TestImaginedNodesAreInTheirCompartments: the planner finds every group where it was meant to be.
func TestImaginedNodesAreInTheirCompartments(t *testing.T) {
	f := &fleet{t: t}
	f.nodeWright("a").policy(percent(50), fixed(1), compartment("canary", "tier", "canary"), compartment("racks", "tier", "racks",
		func(c *nwv1.Compartment) { c.GroupBy = "example.com/rack" }))
	sc := f.scenario(0)
	var err error
	sc.Nodes, _, err = simulate.Imagine(sc.NodeWrights, simulate.Sizes{ByCompartment: map[string]int{"canary": 2, "racks": 20, "default": 5}})
	require.NoError(t, err)
	got := map[string]int{}
	for _, c := range only(t, simulate.Run(sc)).Compartments {
		got[c.Name] = c.Nodes
	}
	require.Equal(t, map[string]int{"canary": 2, "racks": 20, "default": 5}, got)
	racks := map[string]int{}
	for _, n := range sc.Nodes {
		if n.Labels["tier"] == "racks" {
			racks[n.Labels["example.com/rack"]]++
		}
	}
	require.Equal(t, map[string]int{"group-1": 8, "group-2": 8, "group-3": 4}, racks)
}

func TestUnresolvedNodeWrightsSayWhy(t *testing.T) {
	f := &fleet{t: t}
	f.nodeWright("a", func(nw *nwv1.NodeWright) {
		nw.Spec.DeploymentPolicy = "gone"
		nw.Spec.Packages["x"] = nwv1.Package{PackageRef: &nwv1.PackageReference{Name: "y"}}
	})
	require.Equal(t, `spec.packages.x.packageRef.name: Package "y" does not exist; spec.deploymentPolicy: DeploymentPolicy "gone" does not exist`,
		f.resolved()[0].Problem)
}

// TestOutcomesDoNotDependOnOrder: the same nodes fail whatever the policy, and about as many as asked for.
func TestOutcomesDoNotDependOnOrder(t *testing.T) {
	failed := func(b nwv1.DeploymentBudget, s *nwv1.DeploymentStrategy) []string {
		f := &fleet{t: t}
		sc := f.nodeWright("tune").policy(b, s).scenario(400)
		sc.Seed, sc.Failures.Percent = 11, 5
		var out []string
		for _, failure := range only(t, simulate.Run(sc)).Failures {
			out = append(out, failure.Node)
		}
		return out
	}
	some := failed(percent(100), exponential(1, 2))
	require.Equal(t, some, failed(percent(30), fixed(50)))
	require.Equal(t, some, failed(percent(100), nil))
	require.InDelta(t, 20, len(some), 10)
}

func TestSeedsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(5) {
		f := &fleet{t: t}
		sc := f.nodeWright("tune").scenario(200)
		sc.Seed, sc.Failures.Percent = seed, 5
		seen[fmt.Sprint(only(t, simulate.Run(sc)).Failures)] = true
	}
	require.Len(t, seen, 5)
}
