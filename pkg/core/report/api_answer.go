package report

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// APIAnswer words a failed request so that it stays the same while its cause does: what the API server says, and nothing of
// addresses and ports.
func APIAnswer(err error) string {
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return status.Status().Message
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time"
	}
	return "the API server could not be reached"
}
