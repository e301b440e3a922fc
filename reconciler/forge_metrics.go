package reconciler

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// ForgeMetrics counts what is asked of forges.
type ForgeMetrics struct {
	requests  *prometheus.CounterVec
	remaining *prometheus.GaugeVec
}

// NewForgeMetrics registers the metrics; pending counts the statuses that are wanted and not yet shown. It panics where one of
// them is registered already: that is a wiring mistake.
func NewForgeMetrics(registry prometheus.Registerer, pending func() int) *ForgeMetrics {
	m := &ForgeMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleetwright_scm_requests_total",
			Help: "Requests to forges by provider, operation and status code (0: no answer).",
		}, []string{"provider", "op", "code"}),
		remaining: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleetwright_scm_ratelimit_remaining",
			Help: "Requests that a forge says are left of its limit, by host.",
		}, []string{"host"}),
	}
	registry.MustRegister(m.requests, m.remaining, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fleetwright_commit_status_pending",
		Help: "Commit statuses that are wanted and not yet known to be shown by their forge.",
	}, func() float64 { return float64(pending()) }))
	return m
}

// Request counts one answer; code 0 means that there was none.
func (m *ForgeMetrics) Request(provider, op string, code int) {
	m.requests.WithLabelValues(provider, op, strconv.Itoa(code)).Inc()
}

// Remaining notes what is left of a limit.
func (m *ForgeMetrics) Remaining(host string, n int) {
	m.remaining.WithLabelValues(host).Set(float64(n))
}
