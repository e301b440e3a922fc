package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// TestACommitThatBeginsAlikeIsNotPromoted: the annotation stays on the Fleet, and whoever can push can make a commit with the same first digits.
func TestACommitThatBeginsAlikeIsNotPromoted(t *testing.T) {
	commit := "1234567" + strings.Repeat("a", 33)
	fleet := &fleetv1.Fleet{}
	for value, want := range map[string]struct{ whole, part bool }{
		commit: {true, false}, " " + strings.ToUpper(commit) + "\n": {true, false},
		"1234567": {false, true}, commit[:39]: {false, true}, "": {}, commit + "a": {}, "7654321": {},
	} {
		fleet.Annotations = map[string]string{fleetv1.PromoteAnnotation: value}
		require.Equal(t, want.whole, report.ByHand(fleet, commit), "%q", value)
		require.Equal(t, want.part, report.ByHandInPart(fleet, commit), "%q", value)
		require.False(t, report.ByHand(fleet, ""))
	}
}
