package adopt_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/adopt"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var configMap = map[string]string{"sysctl.conf": "vm.swappiness=0"}

// spec is what both operators were told.
func spec(t *testing.T) desired.Set {
	t.Helper()
	set, problems := desired.Resolve(&nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{
		"tuning": {Version: "1.0.0", Image: "example.com/tuning", Interrupt: &nwv1.Interrupt{Type: nwv1.InterruptReboot}, ConfigMap: configMap},
		"tools":  {Version: "2.0.0", Image: "example.com/tools"},
	}}}, nil)
	require.Empty(t, problems)
	return set
}

func rollout(t *testing.T) adopt.Rollout {
	return adopt.Rollout{Name: "base", UID: "uid-base", Set: spec(t), Configs: map[string]map[string]string{"tuning|1.0.0": configMap}}
}

// recorded is a node object of a version of NVIDIA's operator.
func recorded(t *testing.T, version string) adopt.Node {
	t.Helper()
	data, err := os.ReadFile("testdata/node-" + version + ".yaml")
	require.NoError(t, err)
	n := corev1.Node{}
	require.NoError(t, yaml.UnmarshalStrict(data, &n))
	return adopt.Node{Name: n.Name, UID: n.UID, Annotations: n.Annotations, Labels: n.Labels, Unschedulable: n.Spec.Unschedulable}
}

// plans lets the planner go on from an adopted record; `pool: gpu` is what the NodeWright selects.
func plans(t *testing.T, r adopt.Rollout, e adopt.Entry) plan.Output {
	t.Helper()
	in := plan.Input{
		Now: time.Date(2026, 10, 7, 9, 0, 0, 0, time.UTC), NodeWrights: []plan.NodeWright{{Name: "base", UID: "uid-base", Generation: 1, Desired: r.Set}},
		Snapshots: map[string]desired.Package{},
		Nodes: []plan.Node{{
			Name: "gpu-1", UID: "uid-gpu-1", Ready: true, BootID: "b", Unschedulable: e.Cordon,
			Records: map[string]noderecord.Record{"base": *e.Record}, PodsListed: true,
		}},
	}
	if e.Cordon {
		in.Nodes[0].CordonOwners = []string{"base"}
	}
	for _, def := range e.Snapshots {
		in.Snapshots[def.SnapshotHash] = def
	}
	return plan.Compute(in)
}

func TestBothFormatsAreCompleteAndRunNothing(t *testing.T) {
	for _, version := range []string{"v0.15", "v0.20"} {
		t.Run(version, func(t *testing.T) {
			r := rollout(t)
			e := adopt.Plan(recorded(t, version), r)
			require.Empty(t, e.Ambiguous)
			require.Empty(t, e.Runs)
			require.Equal(t, []string{"tools 2.0.0", "tuning 1.0.0"}, e.Done)
			require.Equal(t, version == "v0.15", e.Cordon, "the cordon is owned, so that it is given back")
			out := plans(t, r, e)
			for _, d := range out.Decisions {
				require.Equal(t, plan.ActionUncordon, d.Action)
				require.Empty(t, d.Start)
			}
			require.Len(t, out.Decisions, map[string]int{"v0.15": 1, "v0.20": 0}[version])
		})
	}
}

// stateOf replaces one package's state on the recorded node.
func stateOf(t *testing.T, key string, change map[string]string) adopt.Node {
	t.Helper()
	n := recorded(t, "v0.20")
	var state map[string]map[string]any
	require.NoError(t, json.Unmarshal([]byte(n.Annotations[nwv1.NodeStateKey("base")]), &state))
	for field, value := range change {
		state[key][field] = value
	}
	data, err := json.Marshal(state)
	require.NoError(t, err)
	n.Annotations[nwv1.NodeStateKey("base")] = string(data)
	n.Annotations[nwv1.StatusKey("base")] = "in_progress"
	return n
}

func TestWhatIsHalfWayIsLeftToThePlanner(t *testing.T) {
	for name, c := range map[string]struct {
		key    string
		change map[string]string
		adjust func(*adopt.Rollout)
		runs   string
		stages []nwv1.Stage
	}{
		"applying":  {"tools|2.0.0", map[string]string{"stage": "apply", "state": "in_progress"}, nil, "tools 2.0.0: stage apply is in_progress", []nwv1.Stage{"apply", "config"}},
		"applied":   {"tools|2.0.0", map[string]string{"stage": "apply", "state": "complete"}, nil, "tools 2.0.0: stage apply is complete", []nwv1.Stage{"config"}},
		"erroring":  {"tools|2.0.0", map[string]string{"stage": "config", "state": "erroring"}, nil, "tools 2.0.0: stage config is erroring", []nwv1.Stage{"config"}},
		"to reboot": {"tuning|1.0.0", map[string]string{"stage": "config"}, nil, "tuning 1.0.0: its interrupt is to come", nil},
		"rebooted":  {"tuning|1.0.0", map[string]string{"stage": "interrupt"}, nil, "tuning 1.0.0: stage post-interrupt is to come", []nwv1.Stage{"post-interrupt"}},
		"configured otherwise": {"tools|2.0.0", nil, func(r *adopt.Rollout) {
			r.Configs["tools|2.0.0"] = map[string]string{"a": "b"}
		}, "tools 2.0.0: its configuration has changed since", []nwv1.Stage{"config"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout(t)
			if c.adjust != nil {
				c.adjust(&r)
			}
			e := adopt.Plan(stateOf(t, c.key, c.change), r)
			require.Empty(t, e.Ambiguous)
			require.Equal(t, []string{c.runs}, e.Runs)
			out := plans(t, r, e)
			require.Equal(t, plan.AdmissionUnconfirmed, out.Reasons[0].Code, "it is admitted as any node is")
			rec := *out.Decisions[0].Record
			e.Record = &rec
			next := runsNext(t, r, e, out)
			require.Equal(t, c.stages, next)
		})
	}
}

// runsNext are the stages that start when the admission is seen.
func runsNext(t *testing.T, r adopt.Rollout, e adopt.Entry, admitted plan.Output) []nwv1.Stage {
	t.Helper()
	in := plan.Input{
		Now: time.Date(2026, 10, 7, 9, 0, 1, 0, time.UTC), Ledger: *admitted.Ledger, Snapshots: map[string]desired.Package{},
		NodeWrights: []plan.NodeWright{{Name: "base", UID: "uid-base", Generation: 1, Desired: r.Set}},
		Nodes: []plan.Node{{
			Name: "gpu-1", UID: "uid-gpu-1", Ready: true, BootID: "b", Unschedulable: true, CordonOwners: []string{"base"},
			Records: map[string]noderecord.Record{"base": *e.Record}, PodsListed: true,
		}},
	}
	out := plan.Compute(in)
	require.NotEmpty(t, out.Decisions)
	require.NotEmpty(t, out.Decisions[0].Start)
	if out.Decisions[0].Action == plan.ActionInterrupt {
		return nil
	}
	return out.Decisions[0].Start[0].Stages
}

func TestWhatCouldMeanTwoThingsIsNotDecided(t *testing.T) {
	for name, c := range map[string]struct {
		node   func(t *testing.T) adopt.Node
		adjust func(*adopt.Rollout)
		want   string
	}{
		"another image": {func(t *testing.T) adopt.Node {
			return stateOf(t, "tools|2.0.0", map[string]string{"image": "example.com/mirror/tools"})
		}, nil, "package tools 2.0.0: what ran is example.com/mirror/tools , and the spec says example.com/tools  in the same version"},
		"no ConfigMap": {func(t *testing.T) adopt.Node { return recorded(t, "v0.20") }, func(r *adopt.Rollout) { r.Configs = nil },
			"package tuning 1.0.0: the operator's ConfigMap is gone, so it is not known which configuration is on the node; with --trust-spec it is that of the spec"},
		"an uninstall": {func(t *testing.T) adopt.Node {
			return stateOf(t, "tools|2.0.0", map[string]string{"stage": "uninstall"})
		}, nil,
			"package tools 2.0.0: an uninstall is under way that the spec does not ask for"},
		"at work": {func(t *testing.T) adopt.Node {
			n := recorded(t, "v0.20")
			n.Running = "nodewright/x"
			return n
		}, nil, "pod nodewright/x of NVIDIA's operator is still at work: wait for its end, or delete it"},
		"malformed": {func(t *testing.T) adopt.Node {
			n := recorded(t, "v0.20")
			n.Annotations[nwv1.NodeStateKey("base")] = "{"
			return n
		}, nil, "annotation nodewright.nvidia.com/nodeState_base cannot be read: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout(t)
			if c.adjust != nil {
				c.adjust(&r)
			}
			e := adopt.Plan(c.node(t), r)
			require.Nil(t, e.Record)
			require.Contains(t, e.Ambiguous, c.want)
		})
	}
}

// Our CRD does not keep which keys of a configMap are half-way. On a node that is, every interrupt that may be due runs; on one
// that is complete, none does.
func TestKeysThatAreNotKnownToHaveChanged(t *testing.T) {
	r := rollout(t)
	set, problems := desired.Resolve(&nwv1.NodeWright{Spec: nwv1.NodeWrightSpec{Packages: map[string]nwv1.Package{
		"tuning": {
			Version: "1.0.0", Image: "example.com/tuning", ConfigMap: configMap,
			ConfigInterrupts: map[string]nwv1.Interrupt{"sysctl.*": {Type: nwv1.InterruptService, Services: []string{"systemd-sysctl"}}},
		},
	}}}, nil)
	require.Empty(t, problems)
	r.Set = set
	for _, c := range []struct {
		name, state, word string
		unknown           bool
		due               []string
	}{
		{"known, half-way", "in_progress", "in_progress", false, nil},
		{"not known, half-way", "in_progress", "in_progress", true, []string{"sysctl.conf"}},
		{"not known, configured", "complete", "in_progress", true, []string{"sysctl.conf"}},
		{"not known, complete", "complete", "complete", true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.UpdatesUnknown = c.unknown
			e := adopt.Plan(adopt.Node{Name: "gpu-1", UID: "uid-gpu-1", Annotations: map[string]string{
				"nodewright.nvidia.com/status_base": c.word,
				"nodewright.nvidia.com/nodeState_base": `{"tuning|1.0.0":{"name":"tuning","version":"1.0.0","image":"example.com/tuning",` +
					`"stage":"config","state":"` + c.state + `"}}`,
			}}, r)
			require.Empty(t, e.Ambiguous)
			require.Equal(t, c.due, e.Record.Packages["tuning"].DueKeys)
			require.Equal(t, c.word != "complete", len(e.Runs) > 0)
		})
	}
}
