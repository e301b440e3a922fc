// Package crash kills the reconciler at every write of a whole lifecycle, before and after the write takes effect, starts
// it again, and holds the end to the end without a crash: the same state, the same work on every node, and no invariant
// broken on the way (test/history is the witness). The same story is played with each write answered once by an error or
// by nothing, with watches that lag or break, with two leaders at once, and with an API server that goes away.
//
// A point is `<what happens>:<verb>:<resource>/<name>:<nth time>`, as `before:patch:nodes/c0:3`. Environment variables:
//
//	FLEETWRIGHT_CRASH_EVERY  every how many points one is played; 1: all of them. Default 97.
//	FLEETWRIGHT_CRASH_SEED   which of them, and the seed of everything else that is chosen. Default 0.
//	FLEETWRIGHT_CRASH_PER_RUN  how many points are played in one run of the story, far from each other. Default 1.
//	FLEETWRIGHT_CRASH_POINT  one point, or several of one run with spaces between, to see a failure again.
//	FLEETWRIGHT_CRASH_LANES  how many control planes are used at once. Default 1.
//	FLEETWRIGHT_TEST_LOG     the reconciler's log, with any value.
//
// Writes of events and of the leader's lease are no points: the first carry no promise, and the loop does not make the others.
package crash
