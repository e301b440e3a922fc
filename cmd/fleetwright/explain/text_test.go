package explain

import (
	"os"
	"path/filepath"
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

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// golden compares with a file below testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

// picture is a cluster in which every part of the texts has something to say.
func picture() Picture {
	hourAgo := noon.Add(-time.Hour)
	failure := &noderecord.Failure{Package: "limits", Stage: nwv1.StageApply, ExitCode: 3, Reason: string(plan.PackageFailed), Message: "the end of the log"}
	record := func(name string, r noderecord.Record) map[string]noderecord.Record {
		return map[string]noderecord.Record{name: r}
	}
	return Picture{
		in: plan.Input{
			Now:         noon,
			NodeWrights: []plan.NodeWright{{Name: "limits"}, {Name: "kernel"}, {Name: "other"}},
			Nodes: []plan.Node{
				{Name: "a", Ready: true, Unschedulable: true, CordonOwners: []string{"kernel"}, Records: record("kernel", noderecord.Record{
					Round: 2, Batch: 3, Compartment: "default", Packages: map[string]noderecord.Package{
						"kernel": {Version: "6.8.0", Stage: nwv1.StageInterrupt, State: nwv1.StateInProgress, Attempt: 1},
					},
				})},
				{Name: "b", Unschedulable: true, Records: map[string]noderecord.Record{
					"limits": {Round: 1, Batch: 1, Compartment: "canary", Outcome: noderecord.Failed, Failure: failure},
					"gone":   {Round: 7, Batch: 1},
				}, Executions: []plan.Execution{
					{ExecutionKey: plan.ExecutionKey{NodeWright: "limits", Package: "limits"}, Name: "older", State: plan.ExecutionFailed, Created: hourAgo, Message: "older"},
					{ExecutionKey: plan.ExecutionKey{NodeWright: "limits", Package: "limits"}, Name: "newer", State: plan.ExecutionFailed, Created: noon, Message: "first\nlast"},
				}},
				{Name: "c", CordonOwners: []string{"kernel"}},
			},
		},
		out: plan.Output{
			Reasons: []plan.Reason{
				{NodeWright: "limits", Node: "b", Code: plan.PackageFailed, Message: "package limits failed", Since: hourAgo, Ends: plan.PackageFailed.Ends()},
				{NodeWright: "kernel", Node: "a", Code: plan.DisruptionBudget, Message: "refused\nby web", Object: "pod default/web", Since: noon,
					Ends: plan.DisruptionBudget.Ends()},
			},
			Statuses: []plan.Status{
				{NodeWright: "limits", Status: nwv1.StatusErroring, Round: 2, Generation: 4, Total: 3, Failed: 1, Waiting: 1, LateJoiners: true,
					PackageList: []string{"limits:1.0.0"}, Excluded: 2,
					Reasons: []plan.ReasonCount{{Code: plan.PackageFailed, Count: 12, Nodes: []string{"b"}}},
					Compartments: []plan.CompartmentStatus{{
						Name: "canary", Strategy: "fixed", Matched: 3, Ceiling: 1, Failed: 1, Batch: 1, BatchSize: 1,
						Halt: &fleetv1.LedgerHalt{Batch: 1, At: metav1.NewTime(noon.Add(-25 * time.Hour)), Message: "b failed"},
					}},
					Failures: []plan.NodeFailure{{Node: "b", Failure: *failure}, {Node: "lost", Failure: noderecord.Failure{Reason: string(plan.NodeLost)}}}},
				{NodeWright: "kernel", Status: nwv1.StatusBlocked, Round: 2, Problem: "spec.deploymentPolicy: DeploymentPolicy \"x\" does not exist"},
				{NodeWright: "other"},
			},
		},
		written: map[string]nwv1.NodeWright{"kernel": {Status: nwv1.NodeWrightStatus{Reasons: []nwv1.ReasonCount{
			{Reason: string(plan.DisruptionBudget), Nodes: []string{"a"}, Message: "refused; this could not be done: forbidden"},
		}}}},
		notes: []string{"no reconciler leads"},
	}
}

func TestTexts(t *testing.T) {
	p := picture()
	for _, name := range []string{"a", "b", "c"} {
		golden(t, "node-"+name, p.Node(name).Text(noon))
	}
	for _, name := range []string{"limits", "kernel", "other"} {
		golden(t, "nodewright-"+name, p.NodeWright(name).Text(noon))
	}
	p.out = plan.Output{}
	p.notes = nil
	golden(t, "node-without-nodewrights", p.Node("c").Text(noon))
}

func TestAges(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m1s", 125 * time.Minute: "2h5m", 49 * time.Hour: "2d1h",
	} {
		require.Equal(t, want, short(d))
	}
}

func TestNotFound(t *testing.T) {
	in := plan.Input{Nodes: []plan.Node{{Name: "gpu-01"}, {Name: "gpu-17"}, {Name: "web"}}, NodeWrights: []plan.NodeWright{{Name: "base"}}}
	for want, target := range map[string]Target{
		`node "gpu-7" does not exist; close to it: gpu-17, gpu-01`:                 {Node, "gpu-7"},
		`node "database" does not exist: the cluster has 3 others`:                 {Node, "database"},
		`nodewright "bases" does not exist; close to it: base`:                     {NodeWright, "bases"},
		`nodewright "kernel" does not exist: the cluster has one other nodewright`: {NodeWright, "kernel"},
	} {
		require.EqualError(t, exists(target, in), want)
	}
	require.EqualError(t, exists(Target{NodeWright, "x"}, plan.Input{}), `nodewright "x" does not exist: the cluster has no nodewright`)
	require.NoError(t, exists(Target{Node, "web"}, in))
}

func TestFlagsOfTheReconciler(t *testing.T) {
	out := plan.Settings{StageTimeout: time.Hour}
	readFlags(corev1.Container{
		Args: []string{"--namespace=x", "--attempts=5", "--stage-timeout=30m"},
		Env:  []corev1.EnvVar{{Name: "FLEETWRIGHT_ATTEMPTS", Value: "9"}, {Name: "FLEETWRIGHT_DRAIN_RETRY", Value: "2s"}},
	}, &out)
	require.Equal(t, plan.Settings{Attempts: 5, StageTimeout: 30 * time.Minute, DrainRetry: 2 * time.Second}, out)
}
