package reconciler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoffDoublesUpToTheInterval(t *testing.T) {
	for retries, want := range map[int]time.Duration{
		1: 5 * time.Second, 2: 10 * time.Second, 3: 20 * time.Second, 4: 40 * time.Second, 5: time.Minute, 60: time.Minute,
	} {
		require.Equal(t, want, backoff(retries, 5*time.Second, time.Minute, 0.5), "after %d", retries)
	}
	require.Equal(t, 4*time.Second, backoff(1, 5*time.Second, time.Minute, 0))
	require.Equal(t, 6*time.Second, backoff(1, 5*time.Second, time.Minute, 1))
	require.Equal(t, 12*time.Second, backoff(1, time.Minute, 10*time.Second, 1), "the interval bounds the base too")
}

func TestClipKeepsNotesWithinTheLimit(t *testing.T) {
	long := clip(string(make([]rune, 3000)) + "é")
	require.LessOrEqual(t, len(long), maxNote)
	require.Equal(t, "short", clip("short"))
}
