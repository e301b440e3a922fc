package noderecord_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

func full() noderecord.Record {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	return noderecord.Record{
		NodeWright: "nw", Node: "node", Round: 3, Batch: 2, Compartment: "default", Order: 5, Started: true, Disruptive: true,
		Outcome: noderecord.Failed, EndedAt: &at, ReadyAt: &at, WaitSince: &at, DrainSince: &at, Healed: true, Retried: "x", Waves: 1,
		Failure: &noderecord.Failure{Package: "tuning", Stage: nwv1.StageApply, ExitCode: 3, Reason: "PackageFailed", Message: "boom"},
		Interrupt: &noderecord.Interrupt{
			Type: nwv1.InterruptService, Services: []string{"a"}, Packages: []string{"tuning"}, Wave: 1, Attempt: 1, At: at, NotBefore: &at,
		},
		Packages: map[string]noderecord.Package{"tuning": {
			Version: "1.2.3", Image: "ghcr.io/x/tuning", Digest: "sha256:00", Snapshot: "s", Applied: "a", Keys: map[string]string{"k": "1"},
			DueKeys: []string{"k"}, Stage: nwv1.StageConfig, State: nwv1.StateComplete, Failures: 1, NotBefore: &at,
		}},
	}
}

func TestRoundTrip(t *testing.T) {
	got, found, err := noderecord.Decode(noderecord.Encode(full()), "node")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, full(), got)
}

// TestDecode: the reader is tolerant of what it does not know, and of nothing else.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, value string
		found       bool
		err         string
	}{
		{name: "nothing"},
		{name: "a re-created node", value: `{"nw":"n","node":"other","round":1,"batch":1,"order":0}`},
		{name: "fields of a newer version", value: `{"nw":"n","node":"node","round":1,"batch":1,"order":0,"moon":{"phase":1}}`, found: true},
		{name: "cut", value: `{"nw":`, err: "read record: unexpected end of JSON input"},
		{name: "no object", value: `[]`, err: "read record: json: cannot unmarshal array into Go value of type noderecord.text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, found, err := noderecord.Decode(c.value, "node")
			require.Equal(t, c.found, found)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			if !found {
				require.Zero(t, r)
			}
		})
	}
}

// TestNodeStateIsSpelledAsNVIDIADoes: its tools read it. A package of which nothing was started is absent.
func TestNodeStateIsSpelledAsNVIDIADoes(t *testing.T) {
	r := full()
	r.Packages["later"] = noderecord.Package{Version: "1.0.0"}
	r.Packages["tools"] = noderecord.Package{Version: "2.0.0", Image: "i", Stage: nwv1.StageApply, State: nwv1.StateInProgress}
	got := noderecord.Annotations("gpu", r, nwv1.StatusInProgress, "v1")
	require.Equal(t, map[string]string{
		"fleetwright.dev/record_gpu": noderecord.Encode(r),
		"nodewright.nvidia.com/nodeState_gpu": `{"tools|2.0.0":{"name":"tools","version":"2.0.0","image":"i","stage":"apply","state":"in_progress"},` +
			`"tuning|1.2.3":{"name":"tuning","version":"1.2.3","image":"ghcr.io/x/tuning","containerSHA":"sha256:00","stage":"config","state":"complete","restarts":1}}`,
		"nodewright.nvidia.com/status_gpu":  "in_progress",
		"nodewright.nvidia.com/version_gpu": "v1",
	}, got)
	require.Equal(t, "{}", noderecord.Annotations("gpu", noderecord.Record{}, nwv1.StatusWaiting, "v1")["nodewright.nvidia.com/nodeState_gpu"])
}

func TestCloneSharesNothing(t *testing.T) {
	a := full()
	b := a.Clone()
	require.Equal(t, a, b)
	b.Packages["tuning"].Keys["k"], b.Packages["tuning"].DueKeys[0] = "2", "z"
	*b.EndedAt, *b.Interrupt.NotBefore = time.Time{}, time.Time{}
	b.Interrupt.Packages[0], b.Interrupt.Services[0], b.Failure.Package = "z", "z", "z"
	delete(b.Packages, "tuning")
	require.Equal(t, full(), a)
	require.Equal(t, map[string]noderecord.Package{}, noderecord.Record{}.Clone().Packages)
}

func TestAdvance(t *testing.T) {
	r := noderecord.Record{Round: 3, Batch: 1, Order: 2}
	require.False(t, noderecord.Record{Round: 3}.Reached(3, 0), "no turn yet")
	for _, c := range []struct {
		round int64
		order int32
		want  bool
	}{{3, 2, true}, {3, 1, true}, {3, 3, false}, {2, 9, true}, {4, 1, false}} {
		require.Equal(t, c.want, r.Reached(c.round, c.order), c)
	}
	require.True(t, r.IsOpen())
	require.False(t, noderecord.Record{}.IsOpen(), "no turn yet")
	r.Outcome = noderecord.Released
	require.False(t, r.IsOpen())
}

// TestReaderReadsAsDecodeDoes: the same records, found and errors, also the second time.
func TestReaderReadsAsDecodeDoes(t *testing.T) {
	other := full()
	other.Packages = map[string]noderecord.Package{"tuning": {Version: "2.0.0"}}
	none := full()
	none.Packages = nil
	var r noderecord.Reader
	for range 2 {
		for _, value := range []string{
			"", noderecord.Encode(full()), noderecord.Encode(other), noderecord.Encode(none), `{"nw":"n","node":"other","round":1}`,
			`{"nw":"n","node":"node","round":1,"packages":{}}`, `{"nw":"n","node":"node","round":1,"packages":null}`,
			`{"nw":`, `[]`, `{"nw":"n","node":"node","packages":5}`, `{"nw":"n","node":"node","packages":{"a":[]}}`,
		} {
			want, wantFound, wantErr := noderecord.Decode(value, "node")
			got, found, err := r.Read(value, "node")
			require.Equal(t, err == nil && found, got.Shared > 0, value)
			got.Shared = 0
			require.Equal(t, want, got, value)
			require.Equal(t, wantFound, found, value)
			require.Equal(t, wantErr == nil, err == nil, value)
			if wantErr != nil {
				require.EqualError(t, err, wantErr.Error())
			}
		}
	}
}

// A record by hand, or a damaged one, says nothing: who reads it counts with its numbers.
func TestARecordThatNobodyWritesCannotBeRead(t *testing.T) {
	for field, want := range map[string]string{
		`"round":-1`:                     "round is -1; it counts from 0",
		`"batch":-1`:                     "batch is -1; it counts from 0",
		`"order":-3`:                     "order is -3; it counts from 0",
		`"waves":-1`:                     "waves is -1; it counts from 0",
		`"reruns":-2147483648`:           "reruns is -2147483648; it counts from 0",
		`"outcome":"won"`:                `outcome is "won"; allowed are "succeeded", "failed", "released", and none for a turn that is under way`,
		`"interrupt":{"type":"reboot"}`:  "interrupt.packages is empty; an interrupt is for at least one package",
		`"interrupt":{"packages":["a"]}`: `interrupt.type is "", which is none`,
		`"interrupt":{"type":"reboot","packages":["a"],"attempt":-1}`:           "interrupt.attempt is -1; it counts from 0",
		`"interrupt":{"type":"reboot","packages":["a"],"failures":-7}`:          "interrupt.failures is -7; it counts from 0",
		`"interrupt":{"type":"reboot","packages":["a"],"setback":{"count":-1}}`: "interrupt.setback.count is -1; it counts from 0",
		`"packages":{"b":{},"a":{"failures":-5}}`:                               "packages.a.failures is -5; it counts from 0",
		`"packages":{"a":{"attempt":-5}}`:                                       "packages.a.attempt is -5; it counts from 0",
		`"packages":{"a":{"setback":{"count":-5}}}`:                             "packages.a.setback.count is -5; it counts from 0",
		`"packages":{"a":{}},"packages":{"a":{"failures":-5}}`:                  "packages.a.failures is -5; it counts from 0",
	} {
		var r noderecord.Reader
		for range 2 {
			_, found, err := r.Read(`{"nw":"n","node":"node",`+field+`}`, "node")
			require.EqualError(t, err, "read record: "+want)
			require.False(t, found)
		}
	}
}

// What one node says changes nothing of what another one says.
func TestPackagesNamedTwiceAreThoseOfTheLastName(t *testing.T) {
	value := `{"nw":"n","node":"node","round":1,"Packages":{"a":{"version":"1"}},"packages":{"b":{"version":"2"}}}`
	want := map[string]noderecord.Package{"b": {Version: "2"}}
	var r noderecord.Reader
	first, _, err := r.Read(value, "node")
	require.NoError(t, err)
	require.Equal(t, want, first.Packages)
	decoded, _, err := noderecord.Decode(value, "node")
	require.NoError(t, err)
	require.Equal(t, want, decoded.Packages)
	other, _, err := r.Read(`{"nw":"n","node":"other","round":1,"packages":{"b":{"version":"2"}}}`, "other")
	require.NoError(t, err)
	require.Equal(t, want, other.Packages)
}

// TestReaderSharesWhatIsEqual: a fleet of one mind takes the memory of one node.
func TestReaderSharesWhatIsEqual(t *testing.T) {
	var r noderecord.Reader
	value := noderecord.Encode(full())
	first, _, err := r.Read(value, "node")
	require.NoError(t, err)
	allocs := testing.AllocsPerRun(10, func() {
		second, _, _ := r.Read(value, "node")
		second.Packages["proof"] = noderecord.Package{}
	})
	require.Contains(t, first.Packages, "proof", "the map is the same")
	second, _, err := r.Read(value, "node")
	require.NoError(t, err)
	require.Equal(t, first.Shared, second.Shared)
	require.Zero(t, second.Clone().Shared, "a copy may be changed")
	require.Less(t, allocs, testing.AllocsPerRun(10, func() { _, _, _ = noderecord.Decode(value, "node") }))
}

// TestReaderForgets: what it remembers is bounded, whatever the nodes say.
func TestReaderForgets(t *testing.T) {
	var r noderecord.Reader
	for i := range 5000 {
		rec := full()
		rec.Compartment = fmt.Sprint(i)
		rec.Packages["tuning"] = noderecord.Package{Version: fmt.Sprint(i)}
		got, found, err := r.Read(noderecord.Encode(rec), "node")
		require.NoError(t, err)
		require.True(t, found)
		require.EqualValues(t, i+1, got.Shared, "a number is never used twice")
		got.Shared = 0
		require.Equal(t, rec, got)
	}
	require.LessOrEqual(t, r.Size(), 2*1024)
}
