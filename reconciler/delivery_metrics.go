package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// DeliveryMetrics counts what Delivery does.
type DeliveryMetrics struct {
	operations  *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	ready       *prometheus.GaugeVec
	lastSuccess *prometheus.GaugeVec
	changes     *prometheus.CounterVec
}

// NewDeliveryMetrics registers the metrics. It panics where one of them is registered already: that is a wiring mistake.
func NewDeliveryMetrics(registry prometheus.Registerer) *DeliveryMetrics {
	m := &DeliveryMetrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleetwright_git_operations_total",
			Help: "Git operations by kind (resolve, fetch) and result (success, or the reason of the failure).",
		}, []string{"op", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleetwright_git_operation_duration_seconds", Help: "Duration of git operations.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"op"}),
		ready: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleetwright_fleet_ready",
			Help: "1 if every targeted node is complete at the Fleet's newest revision, 0 if not.",
		}, []string{"namespace", "name"}),
		lastSuccess: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleetwright_fleet_last_success_timestamp_seconds",
			Help: "When the Fleet was last seen ready, in Unix time.",
		}, []string{"namespace", "name"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleetwright_applied_objects_total",
			Help: "Objects written or deleted, by action (created, configured, restored, recreated, pruned, kept).",
		}, []string{"action"}),
	}
	registry.MustRegister(m.operations, m.durations, m.ready, m.lastSuccess, m.changes)
	return m
}

// git starts the clock of an operation; the returned function stops it.
func (m *DeliveryMetrics) git(op string, now func() time.Time) func(error) {
	start := now()
	return func(err error) {
		result := "success"
		if failure, ok := asFailure(err); ok {
			result = failure.Reason
		} else if err != nil {
			result = "error"
		}
		m.operations.WithLabelValues(op, result).Inc()
		m.durations.WithLabelValues(op).Observe(now().Sub(start).Seconds())
	}
}

func (m *DeliveryMetrics) fleet(fleet *fleetv1.Fleet, now func() time.Time) {
	if !meta.IsStatusConditionTrue(fleet.Status.Conditions, readyCondition) {
		m.ready.WithLabelValues(fleet.Namespace, fleet.Name).Set(0)
		return
	}
	m.ready.WithLabelValues(fleet.Namespace, fleet.Name).Set(1)
	m.lastSuccess.WithLabelValues(fleet.Namespace, fleet.Name).Set(float64(now().Unix()))
}

func (m *DeliveryMetrics) change(action report.ChangeAction) {
	m.changes.WithLabelValues(string(action)).Inc()
}

func (m *DeliveryMetrics) forget(fleet types.NamespacedName) {
	m.ready.DeleteLabelValues(fleet.Namespace, fleet.Name)
	m.lastSuccess.DeleteLabelValues(fleet.Namespace, fleet.Name)
}
