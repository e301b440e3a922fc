package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// RolloutMetrics are the rollout's metrics. A nil one counts nothing.
type RolloutMetrics struct {
	status, nodes, reasons, round                                         *prometheus.GaugeVec
	matched, ceiling, inProgress, completed, failed, currentBatch, halted *prometheus.GaugeVec
	passes, decisions, evictions                                          *prometheus.CounterVec
	seconds                                                               prometheus.Histogram
}

// NewRolloutMetrics makes the metrics and registers them.
func NewRolloutMetrics(registry prometheus.Registerer) (*RolloutMetrics, error) {
	nodeWright := []string{report.MetricNodeWright}
	compartment := []string{report.MetricNodeWright, report.MetricCompartment}
	m := &RolloutMetrics{
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
		passes:       counter(report.MetricPasses, "Passes of the rollout loop.", "result"),
		decisions:    counter(report.MetricDecisions, "Decisions carried out.", "action", "result"),
		evictions:    counter(report.MetricEvictions, "Evictions asked for.", "result"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: report.MetricPassSeconds, Help: "Duration of a pass.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
	}
	for _, c := range append(m.gauges(), m.passes, m.decisions, m.evictions, m.seconds) {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func gauge(name, help string, labels []string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *RolloutMetrics) vectors() []*prometheus.GaugeVec {
	return []*prometheus.GaugeVec{
		m.status, m.nodes, m.reasons, m.round, m.matched, m.ceiling, m.inProgress, m.completed, m.failed, m.currentBatch, m.halted,
	}
}

func (m *RolloutMetrics) gauges() []prometheus.Collector {
	var out []prometheus.Collector
	for _, v := range m.vectors() {
		out = append(out, v)
	}
	return out
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

// statuses sets the gauges anew, so that nothing is left of what is gone.
func (m *RolloutMetrics) statuses(all []plan.Status) {
	if m == nil {
		return
	}
	for _, v := range m.vectors() {
		v.Reset()
	}
	for _, s := range all {
		m.one(s)
	}
}

func (m *RolloutMetrics) one(s plan.Status) {
	for _, word := range []nwv1.Status{
		nwv1.StatusUnknown, nwv1.StatusComplete, nwv1.StatusBlocked, nwv1.StatusWaiting, nwv1.StatusDisabled, nwv1.StatusPaused,
		nwv1.StatusInProgress, nwv1.StatusErroring,
	} {
		m.status.WithLabelValues(s.NodeWright, string(word)).Set(truth(s.Status == word))
	}
	for state, n := range map[string]int32{
		"complete": s.Complete, "in_progress": s.InProgress, "failed": s.Failed, "waiting": s.Waiting, "blocked": s.Blocked,
	} {
		m.nodes.WithLabelValues(s.NodeWright, state).Set(float64(n))
	}
	for _, reason := range s.Reasons {
		m.reasons.WithLabelValues(s.NodeWright, string(reason.Code)).Set(float64(reason.Count))
	}
	m.round.WithLabelValues(s.NodeWright).Set(float64(s.Round))
	for _, c := range s.Compartments {
		m.compartment(s.NodeWright, c)
	}
}

func (m *RolloutMetrics) compartment(nodeWright string, c plan.CompartmentStatus) {
	for vector, value := range map[*prometheus.GaugeVec]float64{
		m.matched: float64(c.Matched), m.ceiling: float64(c.Ceiling), m.inProgress: float64(c.InUse),
		m.completed: float64(c.Complete), m.failed: float64(c.Failed), m.currentBatch: float64(c.Batch),
		m.halted: truth(c.Halt != nil),
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
