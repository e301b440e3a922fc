package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/ask"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

func TestPromote(t *testing.T) {
	commit := strings.Repeat("3f", 20)
	fleet := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "fleetwright", Name: "us-east-1"}}
	now := time.Unix(1000, 0)
	_, err := ask.Promote(fleet, commit, now)
	require.EqualError(t, err, "no commit waits: Fleet fleetwright/us-east-1 holds none back")

	fleet.Spec.Promotion = &fleetv1.Promotion{After: []fleetv1.PromotionGate{{Context: "fleetwright/canary"}}}
	fleet.Status.Promotion = &fleetv1.PromotionStatus{
		Revision: "main@sha1:" + commit, Gates: []fleetv1.PromotionGateStatus{{Context: "fleetwright/canary", State: "failure"}},
	}
	for asked, want := range map[string]string{
		"":                       "--commit is required: Fleet fleetwright/us-east-1 holds back " + commit + ", held back: fleetwright/canary is failure",
		"3f3f":                   "--commit 3f3f is too short (allowed: at least 7 digits)",
		"aaaaaaaaaaaa":           "commit aaaaaaaaaaaa does not wait: Fleet fleetwright/us-east-1 holds back " + commit + ", held back: fleetwright/canary is failure",
		strings.Repeat("3f", 22): "commit " + strings.Repeat("3f", 22) + " does not wait: Fleet fleetwright/us-east-1 holds back " + commit + ", held back: fleetwright/canary is failure",
	} {
		_, err := ask.Promote(fleet, asked, now)
		require.EqualError(t, err, want)
	}
	wish, err := ask.Promote(fleet, "3F3F3F3", now)
	require.NoError(t, err)
	require.Equal(t, "Fleet fleetwright/us-east-1: fleetwright.dev/promote: \""+commit+"\" would be set\n"+
		"commit "+commit+" is applied without waiting any longer (held back: fleetwright/canary is failure)\n", wish.Text(false))
	require.Contains(t, wish.Text(true), "is set\n")
}
