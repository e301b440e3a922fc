package finding_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"interrupt", "interupt", 1}, {"gpu-01", "gpu-10", 2}, {"kitten", "sitting", 3}} {
		require.Equal(t, tc.want, finding.Distance(tc.a, tc.b), "%s %s", tc.a, tc.b)
		require.Equal(t, tc.want, finding.Distance(tc.b, tc.a))
	}
}
