// Package footprint measures what the agent costs a host: the size of its binary, the time of a start, its memory beside a running
// step. `make bench` prints each as a part of its bound, and fails above 1. A ratio, because what a machine has to do beside it
// changes from run to run; the bounds do not.
package footprint
