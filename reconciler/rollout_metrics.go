package reconciler

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// RolloutMetrics are the rollout's metrics. A nil one counts nothing.
type RolloutMetrics struct {
	gauges                       gaugeSnapshot
	passes, decisions, evictions *prometheus.CounterVec
	seconds                      prometheus.Histogram
}

// NewRolloutMetrics makes the metrics and registers them.
func NewRolloutMetrics(registry prometheus.Registerer) (*RolloutMetrics, error) {
	m := &RolloutMetrics{
		passes:    counter(report.MetricPasses, "Passes of the rollout loop.", "result"),
		decisions: counter(report.MetricDecisions, "Decisions carried out.", "action", "result"),
		evictions: counter(report.MetricEvictions, "Evictions asked for.", "result"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: report.MetricPassSeconds, Help: "Duration of a pass.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
	}
	m.gauges.set(newGauges())
	for _, c := range []prometheus.Collector{&m.gauges, m.passes, m.decisions, m.evictions, m.seconds} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// gaugeSnapshot shows the gauges of the newest pass, all or none of them: a scrape in the middle of a pass sees those of the
// pass before, and what is gone is gone at once.
type gaugeSnapshot struct{ current atomic.Pointer[gauges] }

func (s *gaugeSnapshot) set(g *gauges) { s.current.Store(g) }

// Describe implements prometheus.Collector.
func (s *gaugeSnapshot) Describe(out chan<- *prometheus.Desc) {
	for _, v := range s.current.Load().all() {
		v.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (s *gaugeSnapshot) Collect(out chan<- prometheus.Metric) {
	for _, v := range s.current.Load().all() {
		v.Collect(out)
	}
}

// gauges are the gauges of one pass. They are filled before anybody sees them and not changed afterwards.
type gauges struct {
	status, nodes, reasons, round                                         *prometheus.GaugeVec
	matched, ceiling, inProgress, completed, failed, currentBatch, halted *prometheus.GaugeVec
}

func newGauges() *gauges {
	nodeWright := []string{report.MetricNodeWright}
	compartment := []string{report.MetricNodeWright, report.MetricCompartment}
	return &gauges{
		status:       gauge(report.MetricStatus, "1 for the current status of a NodeWright.", append(nodeWright, "status")),
		nodes:        gauge(report.MetricNodes, "Targeted nodes by state.", append(nodeWright, "state")),
		reasons:      gauge(report.MetricReasons, "Nodes that are not complete by reason.", append(nodeWright, "reason")),
		round:        gauge(report.MetricRound, "Number of the current round.", nodeWright),
		matched:      gauge(report.MetricMatched, "Nodes of a compartment.", compartment),
		ceiling:      gauge(report.MetricCeiling, "Most nodes at work or out of service at once.", compartment),
		inProgress:   gauge(report.MetricInProgress, "Slots in use.", compartment),
		completed:    gauge(report.MetricCompleted, "Complete nodes.", compartment),
		failed:       gauge(report.MetricFailed, "Failed nodes.", compartment),
		currentBatch: gauge(report.MetricBatch, "Number of the newest batch.", compartment),
		halted:       gauge(report.MetricHalted, "1 while nobody may be admitted because batches failed.", compartment),
	}
}

func (g *gauges) all() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{
		g.status, g.nodes, g.reasons, g.round, g.matched, g.ceiling, g.inProgress, g.completed, g.failed, g.currentBatch, g.halted,
	}
}

func gauge(name, help string, labels []string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *RolloutMetrics) pass(d time.Duration, err error) {
	if m == nil {
		return
	}
	m.seconds.Observe(d.Seconds())
	m.passes.WithLabelValues(result(err, false)).Inc()
}

func (m *RolloutMetrics) decision(d plan.Decision, outcome report.Outcome, err error) {
	if m == nil {
		return
	}
	m.decisions.WithLabelValues(string(d.Action), result(err, outcome.Conflict)).Inc()
	for _, e := range outcome.Evictions {
		m.evictions.WithLabelValues(string(e.Result)).Inc()
	}
}

func result(err error, conflict bool) string {
	switch {
	case err != nil:
		return "error"
	case conflict:
		return "conflict"
	}
	return "ok"
}

// statuses makes the gauges anew, so that nothing is left of what is gone.
func (m *RolloutMetrics) statuses(all []plan.Status) {
	if m == nil {
		return
	}
	g := newGauges()
	for _, s := range all {
		g.one(s)
	}
	m.gauges.set(g)
}

func (g *gauges) one(s plan.Status) {
	for _, word := range []nwv1.Status{
		nwv1.StatusUnknown, nwv1.StatusComplete, nwv1.StatusBlocked, nwv1.StatusWaiting, nwv1.StatusDisabled, nwv1.StatusPaused,
		nwv1.StatusInProgress, nwv1.StatusErroring,
	} {
		g.status.WithLabelValues(s.NodeWright, string(word)).Set(truth(s.Status == word))
	}
	for state, n := range map[string]int32{
		"complete": s.Complete, "in_progress": s.InProgress, "failed": s.Failed, "waiting": s.Waiting, "blocked": s.Blocked,
	} {
		g.nodes.WithLabelValues(s.NodeWright, state).Set(float64(n))
	}
	for _, reason := range s.Reasons {
		g.reasons.WithLabelValues(s.NodeWright, string(reason.Code)).Set(float64(reason.Count))
	}
	g.round.WithLabelValues(s.NodeWright).Set(float64(s.Round))
	for _, c := range s.Compartments {
		g.compartment(s.NodeWright, c)
	}
}

func (g *gauges) compartment(nodeWright string, c plan.CompartmentStatus) {
	for vector, value := range map[*prometheus.GaugeVec]float64{
		g.matched: float64(c.Matched), g.ceiling: float64(c.Ceiling), g.inProgress: float64(c.InUse),
		g.completed: float64(c.Complete), g.failed: float64(c.Failed), g.currentBatch: float64(c.Batch),
		g.halted: truth(c.Halt != nil),
	} {
		vector.WithLabelValues(nodeWright, c.Name).Set(value)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
