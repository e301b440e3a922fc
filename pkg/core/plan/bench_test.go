package plan_test

import (
	"fmt"
	"testing"

	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// BenchmarkCompute is one pass over a fleet of 5 NodeWrights with 10 packages each. In half of the fleet everything is
// complete; in the other half the last NodeWright has all its nodes to do.
func BenchmarkCompute(b *testing.B) {
	for _, nodes := range []int{1000, 3000, 10000} {
		b.Run(fmt.Sprintf("%dnodes", nodes), func(b *testing.B) {
			w := fleetOf(b, nodes)
			in := w.input()
			b.ReportAllocs()
			for b.Loop() {
				plan.Compute(in)
			}
		})
	}
}

// fleetOf is a fleet half-way: the records are written as a completed rollout leaves them, for one node, and copied.
func fleetOf(t tb, nodes int) *world {
	w := newWorld(t, 1)
	var packages []desired.Package
	for i := range 10 {
		packages = append(packages, config(pkg(fmt.Sprintf("package-%c", 'a'+i), "1.0.0"), "conf", "x"))
	}
	for i := range 5 {
		w.nodeWright(fmt.Sprintf("nodewright-%d", i), policy(percent(10), linear(10, 5)), packages...)
	}
	w.settle()
	w.jobs = map[string]*plan.Execution{}
	done := w.nodes["n01"].Records
	for i := range nodes - 1 {
		n := w.addNode(fmt.Sprintf("node-%05d", i), nil)
		for name, r := range done {
			r = r.Clone()
			r.Node = n.UID
			if i%2 == 0 && name == "nodewright-4" {
				r = noderecord.Record{NodeWright: r.NodeWright, Node: n.UID, Round: r.Round}
			}
			n.Records[name] = r
		}
	}
	return w
}
