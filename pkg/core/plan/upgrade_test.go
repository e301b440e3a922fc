package plan_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var recordStates = flag.Bool("record-states", false, "write the states that this version leaves, for the versions to come")

// savedState is what a version left in the cluster in the middle of a rollout: nothing else survives a process.
type savedState struct {
	Ledger fleetv1.LedgerSpec `json:"ledger"`
	// Record is the text of the annotation; Ran what was done on the host before.
	Record   string   `json:"record"`
	Cordoned bool     `json:"cordoned"`
	Boot     string   `json:"boot"`
	Ran      []string `json:"ran"`
}

const savedStates = "testdata/states-v0.1.json"

// upgradeWorld is one node with two packages, one of which reboots.
func upgradeWorld(t *testing.T) *world {
	w := newWorld(t, 1)
	w.nodeWright("tune", budgetOnly(1), reboot(pkg("tuning", "1.0.0")), pkg("tools", "1.0.0"))
	return w
}

// statesNow are the states after each pass of a whole rollout in which nothing is running.
func statesNow(t *testing.T) []savedState {
	w := upgradeWorld(t)
	var out []savedState
	for range 60 {
		w.pass()
		w.work()
		n := w.nodes["n01"]
		rec, had := n.Records["tune"]
		if !had || slices.ContainsFunc(sortedKeys(rec.Packages), func(p string) bool { return rec.Packages[p].Running != "" }) || rec.Interrupt != nil {
			continue
		}
		s := savedState{*w.in.Ledger.DeepCopy(), noderecord.Encode(rec), n.Unschedulable, n.BootID, slices.Clone(w.ran["n01"])}
		if len(out) == 0 || out[len(out)-1].Record != s.Record {
			out = append(out, s)
		}
	}
	return out
}

// A rollout that an earlier version left anywhere goes on where it was: no stage runs again, and none is left out.
func TestFieldReport_IN05_AnotherVersionGoesOnWhereThisOneWas(t *testing.T) {
	if *recordStates {
		data, err := json.MarshalIndent(statesNow(t), "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(savedStates, append(data, '\n'), 0o600))
	}
	data, err := os.ReadFile(savedStates)
	require.NoError(t, err)
	var states []savedState
	require.NoError(t, json.Unmarshal(data, &states))
	require.GreaterOrEqual(t, len(states), 3)
	whole := states[len(states)-1].Ran
	for _, s := range states {
		w := upgradeWorld(t)
		w.in.Ledger = s.Ledger
		rec, found, err := noderecord.Decode(s.Record, "uid-n01")
		require.NoError(t, err)
		require.True(t, found)
		n := w.nodes["n01"]
		n.Records["tune"], n.Unschedulable, n.BootID = rec, s.Cordoned, s.Boot
		if s.Cordoned {
			n.CordonOwners = []string{"tune"}
		}
		for _, def := range w.in.NodeWrights[0].Desired.Packages {
			w.in.Snapshots[def.SnapshotHash] = def
		}
		w.settle()
		require.Equal(t, plan.Complete, w.reason("tune", "n01").Code)
		require.Equal(t, nwv1.StatusComplete, w.status("tune").Status)
		require.ElementsMatch(t, whole, append(slices.Clone(s.Ran), w.ran["n01"]...), "from %s", s.Record)
		require.EqualValues(t, 1, w.status("tune").Round, "it is the same round")
	}
}

// TestFieldReport_IN05_ARecordOfANewerVersionHoldsItsNode: after a roll back over a change of the records nothing runs on a guess: the
// node waits and says why, the others go on, and the record stays also when its NodeWright goes.
func TestFieldReport_IN05_ARecordOfANewerVersionHoldsItsNode(t *testing.T) {
	w := newWorld(t, 2)
	w.nodeWright("tune", budgetOnly(2), pkg("tuning", "1.0.0"))
	w.settle()
	w.ranSince()
	n := w.nodes["n01"]
	_, _, err := noderecord.Decode(`{"schema":2,"node":"uid-n01"}`, n.UID)
	require.Error(t, err)
	n.Records, n.Malformed, n.Newer = map[string]noderecord.Record{}, map[string]string{"tune": err.Error()}, []string{"tune"}
	n.CordonOwners, n.Unschedulable = []string{"tune"}, true
	w.nodeWright("tune", nil, pkg("tuning", "2.0.0"))
	w.settle()
	require.Empty(t, w.ran["n01"])
	require.Equal(t, []string{"tuning upgrade", "tuning config"}, w.ran["n02"])
	r := w.reason("tune", "n01")
	require.Equal(t, plan.RecordUnreadable, r.Code)
	require.Contains(t, r.Message, "of a newer version of Fleetwright")
	w.log = nil
	w.deleteNodeWright("tune")
	w.settle()
	require.NotContains(t, w.log, "Release tune/n01", "what the newer version knows of the host is not thrown away")
	require.Contains(t, n.Malformed, "tune")
}
