// Package loop wires the rollout loop for tests as cmd/fleetwright-reconciler does, without a manager, metrics and the
// look for another owner: its own caches and clients over one configuration, so that a test may start several, stop each
// at any moment, and put faults into the configuration's transport. Timings are short.
package loop
