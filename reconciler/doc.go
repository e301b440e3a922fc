// Package reconciler is the two loops of the in-cluster process, and their wiring to one another: none.
//
//	delivery*.go  a Fleet: git commit → validated objects in the cluster → commit status
//	rollout*.go   objects + nodes → plan → actions → statuses, events, metrics
//
// They meet only in Kubernetes objects. Both are level-triggered: gather, decide (in the pure core), act, report; report
// always runs. A loop declares the small interfaces that it needs and imports no adapter; cmd/fleetwright-reconciler
// wires them. No decision is made here.
package reconciler
