package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fleetwright/fleetwright/pkg/core/review"
)

// ReviewMetrics counts what Review does.
type ReviewMetrics struct {
	reviews   *prometheus.CounterVec
	durations prometheus.Histogram
}

// NewReviewMetrics registers the metrics. It panics where one of them is registered already: that is a wiring mistake.
func NewReviewMetrics(registry prometheus.Registerer) *ReviewMetrics {
	m := &ReviewMetrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleetwright_reviews_total",
			Help: "Looks at pull requests that came to something, by result (none, changes, errors, refused, trouble, not-admitted).",
		}, []string{"result"}),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fleetwright_review_duration_seconds", Help: "Time from the fetch of a pull request to its plan.",
			Buckets: []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
	}
	registry.MustRegister(m.reviews, m.durations)
	return m
}

func (m *ReviewMetrics) review(result string, took time.Duration) {
	m.reviews.WithLabelValues(result).Inc()
	m.durations.Observe(took.Seconds())
}

// notAdmitted counts a pull request that is not planned.
func (m *ReviewMetrics) notAdmitted(admission review.Admission) {
	if admission != review.Planned {
		m.reviews.WithLabelValues("not-admitted").Inc()
	}
}
