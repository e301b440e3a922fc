// Package history is an independent witness of a rollout. A Recorder keeps every version of nodes, pods, Jobs, NodeWrights
// and the ledger, from watches of its own and as an administrator; all of them lie in one etcd, so that their resource
// versions put them into one order. Check replays that order and tells which invariants of a rollout were broken: it counts
// for itself and calls nothing of the code under test but the reader of records.
package history
