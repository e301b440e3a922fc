package soak

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Environment of TestFieldReport_D10_Soak; without it a short soak runs.
const (
	seedEnv  = "FLEETWRIGHT_SOAK_SEED"  // a number; default 1
	stepsEnv = "FLEETWRIGHT_SOAK_STEPS" // default 150
	nodesEnv = "FLEETWRIGHT_SOAK_NODES" // default 8
	paceEnv  = "FLEETWRIGHT_SOAK_PACE"  // mean pause between two steps; default 40ms
	logEnv   = "FLEETWRIGHT_SOAK_LOG"   // a file for the whole log of the reconciler; default: none, and its end is shown after a failure
)

// longSoak is from how many steps on a soak also waits for what is slow.
const longSoak = 1000

func TestFieldReport_D10_Soak(t *testing.T) {
	o := settings{seed: 1, steps: 150, nodes: 8, pace: 40 * time.Millisecond}
	number(t, seedEnv, func(n int) { o.seed = uint64(n) })
	number(t, stepsEnv, func(n int) { o.steps = n })
	number(t, nodesEnv, func(n int) { o.nodes = n })
	if text := os.Getenv(paceEnv); text != "" {
		var err error
		o.pace, err = time.ParseDuration(text)
		require.NoError(t, err, paceEnv)
	}
	t.Logf("seed %d, %d steps, %d nodes, a step every %s", o.seed, o.steps, o.nodes, o.pace)
	soak(t, newStage(t, o))
}

func number(t *testing.T, env string, set func(int)) {
	t.Helper()
	if text := os.Getenv(env); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err, env)
		set(n)
	}
}

func soak(t *testing.T, s *stage) {
	t.Helper()
	s.begin()
	start := time.Now()
	s.run()
	s.size()
	t.Logf("%d steps in %s, reconciler killed %d times and ended %d times, largest process: %s",
		s.o.steps, time.Since(start).Round(time.Second), s.kills, s.ends, s.peak)
	t.Logf("steps: %v", s.counts)
	s.silence()
	s.revive(s.o.steps)
	s.await("ended", ended)
	s.populate()
	s.mend()
	s.await("complete", completed)
	s.nothingLeft()
	if s.o.steps >= longSoak {
		s.grow(4)
	}
	time.Sleep(lag)
	s.witness.check(s.o.steps)
	w := s.witness
	t.Logf("witness: %d sightings (%d late), %d stages done, %d requests of which %d write, %d conflicts, %d answers of 5xx, %d evictions (%d refused), %d interrupts",
		w.seen, w.late, w.pods.stages, w.log.requests, w.log.writes, w.log.conflicts, w.log.failed, w.log.evictions, w.log.refused, w.log.interrupts)
	require.NotZero(t, w.pods.stages)
	require.NotZero(t, w.log.interrupts)
	require.NotZero(t, w.log.evictions)
	if s.o.steps >= longSoak {
		s.tomorrow()
		s.process = s.program.start()
	}
	s.farewell()
}
