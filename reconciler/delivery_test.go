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

func TestHostOfASource(t *testing.T) {
	for source, want := range map[string]string{
		"https://user:secret@Git.example.com/acme/fleet.git": "git.example.com",
		"ssh://git@git.example.com:2222/acme/fleet":          "git.example.com:2222",
		"git@git.example.com:acme/fleet.git":                 "git.example.com",
		"file:///srv/fleet":                                  "",
		"/srv/fleet":                                         "",
		"https://user:pa/ss@git.example.com/x":               "",
	} {
		require.Equal(t, want, hostOf(source), source)
	}
}

func TestHostGateKeepsWorkersForOthers(t *testing.T) {
	var gate hostGate
	for range fleetsPerHost {
		require.True(t, gate.enter("one"))
	}
	require.False(t, gate.enter("one"))
	require.True(t, gate.enter("two"))
	gate.leave("one")
	require.True(t, gate.enter("one"))
	require.Less(t, fleetsPerHost, parallelFleets)
}
