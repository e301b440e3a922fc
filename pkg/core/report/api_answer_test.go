package report_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetwright/fleetwright/pkg/core/report"
)

func TestAPIAnswer(t *testing.T) {
	for want, err := range map[string]error{
		"too busy":                              fmt.Errorf("patch node a: %w", apierrors.NewTooManyRequests("too busy", 1)),
		"the API server did not answer in time": fmt.Errorf("patch node a: %w", context.DeadlineExceeded),
		"the API server could not be reached":   errors.New("dial tcp 10.0.0.1:443: connection refused"),
	} {
		require.Equal(t, want, report.APIAnswer(err))
	}
}
