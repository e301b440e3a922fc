package simulate_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

var update = flag.Bool("update", false, "write the golden files anew")

// story is a fleet with a bit of everything: two NodeWrights, compartments, good, bad and tolerated batches, a halt, a NodeWright
// that waits for the one before, and one that selects nobody.
func story(t *testing.T) simulate.Result {
	t.Helper()
	f := &fleet{t: t}
	f.nodeWright("tuning", priority(100)).policy(percent(50), linear(1, 2))
	f.nodeWright("kernel", interrupt(nwv1.InterruptReboot)).policy(count(1), fixed(1, failureThreshold(1)),
		nwv1.Compartment{
			Name: "serving", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "serving"}},
			Budget: percent(25), Strategy: exponential(1, 2, failureThreshold(3)),
		})
	sc := f.scenario(0)
	var err error
	sc.Nodes, sc.Imagined, err = simulate.Imagine(sc.NodeWrights, simulate.Sizes{ByCompartment: map[string]int{"serving": 60, "default": 12}})
	require.NoError(t, err)
	f.nodeWright("elsewhere", priority(300), func(nw *nwv1.NodeWright) {
		nw.Spec.NodeSelectors.MatchLabels = map[string]string{"pool": "<none> & nothing"}
	})
	sc.NodeWrights = f.resolved()
	sc.Seed, sc.Failures = 7, simulate.Failures{Percent: 5, FlakyPercent: 3}
	return simulate.Run(sc)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "go test ./pkg/core/simulate -run %s -update writes it anew", t.Name())
}

func TestGoldenText(t *testing.T) {
	r := story(t)
	golden(t, "story.txt", simulate.TextOfGroups(r.Nodes, r.Imagined)+"\n"+simulate.Text(r))
}

func TestGoldenJSON(t *testing.T) {
	data, err := json.MarshalIndent(story(t), "", "  ")
	require.NoError(t, err)
	golden(t, "story.json", string(data)+"\n")
}

func TestGoldenChart(t *testing.T) { golden(t, "story.svg", simulate.Chart(story(t))) }

// TestChartStandsAlone: well-formed, with title and description, colours for both backgrounds, and nothing from outside.
func TestChartStandsAlone(t *testing.T) {
	chart := simulate.Chart(story(t))
	decoder := xml.NewDecoder(strings.NewReader(chart))
	elements := map[string]int{}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	require.Equal(t, 1, elements["desc"])
	require.Zero(t, elements["image"]+elements["script"]+elements["use"]+elements["foreignObject"])
	require.Contains(t, chart, `role="img" aria-labelledby="title desc"`)
	require.Contains(t, chart, `<title id="title">Simulated rollout over 72 nodes</title>`)
	require.Contains(t, chart, "@media (prefers-color-scheme: dark)")
	require.NotRegexp(t, `url\(|@import|href`, chart)
	require.Equal(t, []string{"http://www.w3.org/2000/svg"}, regexp.MustCompile(`[a-z]+://[^"\s]+`).FindAllString(chart, -1),
		"the namespace is a name, nothing is fetched")
}

// TestChartOfManyBatches stays small: what is too narrow to be seen is drawn as one.
func TestChartOfManyBatches(t *testing.T) {
	o := simulate.Rollout{NodeWright: "tune", Total: 5000, Complete: 5000, Outcome: simulate.Complete}
	c := simulate.Compartment{Name: "a-compartment-with-a-long-name", Nodes: 5000, Ceiling: 1}
	for i := range 5000 {
		at, end := simulate.Offset(i), simulate.Offset(i+1)
		c.Batches = append(c.Batches, simulate.Batch{Number: i + 1, Nodes: []string{"n"}, Begin: at, End: end, Verdict: simulate.Good})
		o.Timeline = append(o.Timeline, simulate.Point{At: at, Complete: i, InProgress: i % 2, Waiting: 5000 - i - i%2})
	}
	o.Compartments, o.End = []simulate.Compartment{c}, 5000
	chart := simulate.Chart(simulate.Result{Nodes: 5000, End: 5000, Rollouts: []simulate.Rollout{o}})
	require.Less(t, len(chart), 100_000)
	require.Contains(t, chart, "several batches until ")
	require.Contains(t, chart, "a-compartment-…")
}

// TestChartOfNothing: no node, no time, still a drawing.
func TestChartOfNothing(t *testing.T) {
	f := &fleet{t: t}
	r := simulate.Run(f.nodeWright("tune").scenario(0))
	require.NotContains(t, simulate.Chart(r), "NaN")
	require.Equal(t, "NodeWright tune: targets no node\n", simulate.Text(r))
}

func TestTextOfACompleteFleet(t *testing.T) {
	f := &fleet{t: t}
	sc := f.nodeWright("tune").scenario(2)
	_, state := simulate.RunFrom(sc)
	sc.Nodes, sc.Ledger = state.Nodes, state.Ledger
	require.Equal(t, "NodeWright tune: nothing to do, 2 of 2 nodes complete\n"+
		"  compartment default: no strategy, 2 nodes, ceiling 2\n  out of service: no node\n", simulate.Text(simulate.Run(sc)))
}
