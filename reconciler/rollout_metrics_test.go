package reconciler

import (
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// series are the series of a scrape with their values, as `name{label values}`.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[f.GetName()+fmt.Sprint(labels)] = m.GetGauge().GetValue()
		}
	}
	return out
}

func failing(name string, reasons ...plan.ReasonCount) plan.Status {
	return plan.Status{
		NodeWright: name, Status: nwv1.StatusErroring, Total: 2, Failed: 1, Round: 3, Reasons: reasons,
		Compartments: []plan.CompartmentStatus{{Name: "a", Matched: 2, Failed: 1}},
	}
}

func TestFieldReport_ST05_SeriesOfWhatIsGoneDisappearInOnePass(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewRolloutMetrics(registry)
	require.NoError(t, err)
	gone := plan.ReasonCount{Code: plan.PackageFailed, Count: 1, Nodes: []string{"n1"}}
	m.statuses([]plan.Status{failing("tune", gone), failing("kernel")})
	got := series(t, registry)
	require.Equal(t, 1.0, got["fleetwright_node_reasons[nodewright=tune reason=PackageFailed]"])
	require.Equal(t, 1.0, got["fleetwright_rollout_failed[compartment=a nodewright=tune]"])

	m.statuses([]plan.Status{failing("tune"), failing("kernel")}) // the node is deleted
	require.NotContains(t, series(t, registry), "fleetwright_node_reasons[nodewright=tune reason=PackageFailed]")

	m.statuses([]plan.Status{failing("kernel")}) // the object is deleted
	for name := range series(t, registry) {
		require.NotContains(t, name, "nodewright=tune")
	}
	m.statuses(nil)
	for name := range series(t, registry) {
		require.NotContains(t, name, report.MetricNodeWright+"=")
	}
}

// Alerts fire on series that are missing: a scrape in the middle of a pass must see those of the pass before.
func TestAScrapeSeesAllGaugesOfAPassOrNone(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewRolloutMetrics(registry)
	require.NoError(t, err)
	var all []plan.Status
	for i := range 50 {
		all = append(all, failing(fmt.Sprint("nw", i)))
	}
	m.statuses(all)
	want := len(series(t, registry))
	var passes sync.WaitGroup
	stop := make(chan struct{})
	passes.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				m.statuses(all)
			}
		}
	})
	for range 100 {
		require.Len(t, series(t, registry), want)
	}
	close(stop)
	passes.Wait()
}
