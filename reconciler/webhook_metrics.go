package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"
)

// WebhookMetrics counts what becomes of webhooks.
type WebhookMetrics struct{ requests *prometheus.CounterVec }

// NewWebhookMetrics registers the metrics. It panics where one of them is registered already: that is a wiring mistake.
func NewWebhookMetrics(registry prometheus.Registerer) *WebhookMetrics {
	m := &WebhookMetrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fleetwright_webhook_requests_total",
		Help: "Requests of forges by provider (unknown where it cannot be told) and result.",
	}, []string{"provider", "result"})}
	registry.MustRegister(m.requests)
	return m
}

func (m *WebhookMetrics) count(answer hookAnswer) {
	provider := string(answer.provider)
	if provider == "" {
		provider = "unknown"
	}
	m.requests.WithLabelValues(provider, string(answer.result)).Inc()
}
