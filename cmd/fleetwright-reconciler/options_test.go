package main

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseOptions(t *testing.T) {
	env := map[string]string{"FLEETWRIGHT_AGENT_IMAGE": "agent:1", "FLEETWRIGHT_STAGE_TIMEOUT": "2m", "FLEETWRIGHT_ATTEMPTS": "5"}
	o, err := parseOptions([]string{"--attempts=2"}, func(k string) string { return env[k] }, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "agent:1", o.agentImage, "every flag is read from the environment")
	require.Equal(t, 2*time.Minute, o.stageTimeout)
	require.Equal(t, 2, o.attempts, "the command line wins")
	require.Equal(t, "fleetwright", o.namespace)
	require.True(t, o.leaderElection)
}

func TestParseOptionsRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no agent image": {nil, "--agent-image is required: the full reference of the agent's image"},
		"attempts":       {[]string{"--agent-image=a", "--attempts=0"}, "--attempts: 0 is out of range (allowed: 1 to 100)"},
		"many attempts":  {[]string{"--agent-image=a", "--attempts=4294967297"}, "--attempts: 4294967297 is out of range (allowed: 1 to 100)"},
		"drain retry":    {[]string{"--agent-image=a", "--drain-retry=-5s"}, "--drain-retry: -5s is too short (allowed: more than 0)"},
		"back-off":       {[]string{"--agent-image=a", "--retry-backoff=0s"}, "--retry-backoff: 0s is too short (allowed: more than 0)"},
		"keep":           {[]string{"--agent-image=a", "--keep-failed=0s"}, "--keep-failed: 0s is too short (allowed: more than 0)"},
		"host root":      {[]string{"--agent-image=a", "--host-root=x"}, `--host-root: "x" is not an absolute path`},
		"log level":      {[]string{"--agent-image=a", "--log-level=loud"}, `--log-level: "loud" is not a level (allowed: debug, info, warn, error)`},
		"lease":          {[]string{"--agent-image=a", "--lease-duration=1s"}, "--lease-duration: 1s is too short (allowed: 3s or more)"},
		"timeout":        {[]string{"--agent-image=a", "--stage-timeout=-1s"}, "--stage-timeout: -1s is negative (allowed: 0 or more)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(c.args, func(string) string { return "" }, io.Discard)
			require.EqualError(t, err, c.want)
		})
	}
}
