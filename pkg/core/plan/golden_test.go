package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

var update = flag.Bool("update", false, "write the golden transcripts anew")

// TestTranscriptOfARollout is one whole rollout as a story: what is decided in each pass, and why the others wait. Read
// testdata/rollout.golden first.
func TestTranscriptOfARollout(t *testing.T) {
	w := newWorld(t, 5)
	w.fails = func(node, name string, _ nwv1.Stage) int32 {
		if failed := fmt.Sprint(w.ran); node == "n04" && name == "kernel" && !strings.Contains(failed, "tried") {
			w.ran["n04"] = append(w.ran["n04"], "tried")
			return 3
		}
		return 0
	}
	w.pods = map[string][]*corev1.Pod{}
	w.addPod("n02", "ml", "train-0", map[string]string{"protected": "true"})
	w.addPod("n01", "web", "front-1", nil)
	w.nodeWright("tune", policy(count(2), linear(1, 1)), reboot(pkg("kernel", "1.0.0")), depends(pkg("limits", "1.0.0"), "kernel"))
	protect(w)
	w.in.NodeWrights[0].Policy.Order = nwv1.OrderName // so that n02 gets its turn beside its training run
	s := &story{world: w}
	s.say("Five nodes; at most 2 at a time, batches of 1, then 2. Package kernel needs a reboot; limits depends on kernel.")
	s.say("n01 runs a web pod that may be evicted, n02 a training pod that is protected.")
	s.tell(25)
	s.say("The training run on n02 ends.")
	delete(w.pods, "n02")
	s.tell(90)
	path := filepath.Join("testdata", "rollout.golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(s.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), s.String(), "run `go test ./pkg/core/plan -run Transcript -update` if this is what you want")
}

// story writes down what changes from pass to pass.
type story struct {
	*world
	strings.Builder
	reasons []string
}

func (s *story) say(line string) { fmt.Fprintf(s, "# %s\n", line) }

func (s *story) tell(passes int) {
	for range passes {
		out := s.pass()
		at := s.in.Now.Format("15:04:05")
		for _, d := range out.Decisions {
			fmt.Fprintf(s, "%s  %-10s %s%s\n", at, d.Action, d.Node, details(d))
		}
		s.becauses(out)
		busy := s.busy()
		s.work()
		if len(out.Decisions) == 0 && !busy && out.Next.After(s.in.Now) {
			s.in.Now = out.Next
		}
	}
	status := s.status("tune")
	fmt.Fprintf(s, "= %s: %d of %d nodes complete, %d failed\n", status.Status, status.Complete, status.Total, status.Failed)
}

func details(d plan.Decision) string {
	var out []string
	if d.Cordon != plan.CordonKeep {
		out = append(out, "cordon: "+string(d.Cordon))
	}
	for _, e := range d.Evict {
		out = append(out, "evict "+e.Namespace+"/"+e.Name)
	}
	for _, e := range d.Start {
		what := e.Package
		if e.Interrupt != nil {
			what = string(e.Interrupt.Type) + " for " + strings.Join(e.Interrupt.Packages, ", ")
		}
		out = append(out, fmt.Sprintf("start %s %v attempt %d", what, e.Stages, e.Attempt))
	}
	if d.Record != nil && d.Record.Failure != nil {
		out = append(out, "failed: "+plan.FailureSentence(*d.Record.Failure))
	}
	if len(out) == 0 {
		return ""
	}
	return "  " + strings.Join(out, "; ")
}

// becauses writes the reasons that are new since the last pass.
func (s *story) becauses(out plan.Output) {
	var now []string
	for _, r := range out.Reasons {
		line := fmt.Sprintf("          %s: %s: %s", r.Node, r.Code, r.Message)
		now = append(now, line)
		if !slices.Contains(s.reasons, line) {
			fmt.Fprintln(s, line)
		}
	}
	s.reasons = now
}
