package ask_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/ask"
	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/verb"
)

// cluster is one with a NodeWright that is complete on one node and failed on the other.
func cluster(t *testing.T) plan.Input {
	t.Helper()
	set, problems := desired.Resolve(&nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{
		"tuning": {Version: "1.0.0", Image: "example.com/tuning"},
	}}}, nil)
	require.Empty(t, problems)
	def := set.Packages[0]
	record := func(node types.UID, done bool) map[string]noderecord.Record {
		r := noderecord.Record{
			NodeWright: "uid", Node: node, Round: 1, Batch: 1, Compartment: "default", Outcome: noderecord.Failed,
			Failure:  &noderecord.Failure{Package: "tuning", Reason: "PackageFailed"},
			Packages: map[string]noderecord.Package{"tuning": {Version: "1.0.0", Attempted: def.InstallHash, Snapshot: def.SnapshotHash}},
		}
		if done {
			r.Outcome, r.Failure = noderecord.Succeeded, nil
			r.Packages["tuning"] = noderecord.Package{
				Version: "1.0.0", Attempted: def.InstallHash, Applied: def.InstallHash, Configured: def.ConfigHash, Snapshot: def.SnapshotHash,
			}
		}
		return map[string]noderecord.Record{"base": r}
	}
	return plan.Input{
		Now: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC),
		Ledger: fleetv1.LedgerSpec{Rollouts: map[string]fleetv1.LedgerRollout{"base": {
			UID: "uid", Round: 1, ContentHash: set.Hash, Generation: 1, NextOrder: 2,
			Compartments: map[string]fleetv1.LedgerCompartment{"default": {Batch: 1, Size: 2, Admitted: 2, Settled: true}},
		}}},
		NodeWrights: []plan.NodeWright{{Name: "base", UID: "uid", Generation: 1, Desired: set}},
		Nodes: []plan.Node{
			{Name: "a", UID: "a", Ready: true, Records: record("a", true)}, {Name: "b", UID: "b", Ready: true, Records: record("b", false)},
		},
	}
}

func TestPlan(t *testing.T) {
	nodeWright, node := explain.Target{Kind: explain.NodeWright, Name: "base"}, explain.Target{Kind: explain.Node, Name: "b"}
	for name, c := range map[string]struct {
		wish   ask.Wish
		change func(*plan.Input)
		want   string
		err    string
	}{
		"retry": {wish: ask.Wish{nodeWright, "retry", verb.Request{Token: "7"}}, want: `nodewright/base would be patched: {"metadata":{"annotations":{"fleetwright.dev/retry":"7"}}}
  nodes that are meant: b
  budgets, windows, pauses and protected pods hold as for any other work
`},
		"rerun": {wish: ask.Wish{nodeWright, "rerun", verb.Request{Token: "7", Packages: []string{"tuning"}, Stage: "config", Nodes: []string{"a"}}},
			want: `nodewright/base would be patched: {"metadata":{"annotations":{"fleetwright.dev/rerun":"7 package=tuning stage=config node=a"}}}
  nodes that are meant: a
  budgets, windows, pauses and protected pods hold as for any other work
`},
		"rerun of a package that there is not": {wish: ask.Wish{nodeWright, "rerun", verb.Request{Token: "7", Packages: []string{"tunning"}}},
			err: `fleetwright.dev/rerun: NodeWright base has no package "tunning"; it has tuning`},
		"rerun on a node, from a stage without an interrupt": {wish: ask.Wish{node, "rerun", verb.Request{Token: "7", Stage: "interrupt"}},
			err: "fleetwright.dev/rerun: stage interrupt: no package that is named has an interrupt; the others run from apply or config"},
		"reset on a node": {wish: ask.Wish{node, "reset", verb.Request{Token: "7"}}, want: `node/b would be patched: {"metadata":{"annotations":{"fleetwright.dev/reset":"7"}}}
  nodewright base: AdmissionUnconfirmed, the node is admitted to batch 1 of compartment default
  budgets, windows, pauses and protected pods hold as for any other work
`},
		"regate": {wish: ask.Wish{node, "regate", verb.Request{Token: "7"}}, change: func(in *plan.Input) {
			in.NodeWrights[0].Spec.RuntimeRequired = true
		}, want: `node/b would be patched: {"metadata":{"annotations":{"fleetwright.dev/regate":"7"}}}
  nodewright base: Gating, the node gets the runtime-required taint back before its packages run again
  pods that run there stay; nothing else is scheduled there until every runtime-required NodeWright is complete
  budgets, windows, pauses and protected pods hold as for any other work
`},
		"regate where nothing is gated": {wish: ask.Wish{node, "regate", verb.Request{Token: "7"}},
			err: "fleetwright.dev/regate: NodeWright base is not runtimeRequired: it waits behind no taint"},
		"pause": {wish: ask.Wish{nodeWright, "pause", verb.Request{}}, want: `nodewright/base would be patched: {"metadata":{"annotations":{"nodewright.nvidia.com/pause":"true"}}}
  nothing new starts, here and in every NodeWright behind it
  what runs is suspended: nothing
`},
		"resume of what is neither": {wish: ask.Wish{nodeWright, "resume", verb.Request{Token: "7"}}, want: `nodewright/base stays as it is
  nothing to do: it is neither paused nor halted
`},
		"resume": {wish: ask.Wish{nodeWright, "resume", verb.Request{Token: "7", Verb: "resume"}}, change: func(in *plan.Input) {
			in.NodeWrights[0].Paused = true
			in.Ledger.Rollouts["base"].Compartments["default"] = fleetv1.LedgerCompartment{Halt: &fleetv1.LedgerHalt{}}
		}, want: `nodewright/base would be patched: {"metadata":{"annotations":{"fleetwright.dev/resume":"7","nodewright.nvidia.com/pause":null}}}
  the pause is taken off: it goes on where it was
  halts end: compartment default. Failed nodes need a retry beside it
`},
		"ignore": {wish: ask.Wish{node, "ignore", verb.Request{}}, want: `node/b would be patched: {"metadata":{"labels":{"nodewright.nvidia.com/ignore":"true"}}}
  no NodeWright starts anything on the node; what runs goes on to its end
`},
	} {
		t.Run(name, func(t *testing.T) {
			in := cluster(t)
			if c.change != nil {
				c.change(&in)
			}
			change, err := ask.Plan(in, c.wish)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, change.Text(false))
		})
	}
}

func TestWishesHaveTheirPlace(t *testing.T) {
	err := ask.Wish{Target: explain.Target{Kind: explain.Node, Name: "a"}, Name: ask.Pause}.Check()
	require.EqualError(t, err, "pause is asked of a nodewright, not of a node")
}
