// Package soak holds the soak: the shipped reconciler, as a process of its own under the chart's rights, against a real API
// server with simulated kubelets and thousands of random disturbances.
//
//	make soak                              100 nodes, 10 000 steps, a random seed, which is printed
//	make soak SEED=7 STEPS=2000 NODES=30   the same steps again: all choices come from the seed, none from what is seen
//
// A step is one thing that people or machines do: nodes join, vanish, come back under the same name, reboot, lose power; others
// cordon, uncordon, taint and label them; NodeWrights and policies are edited, paused, disabled, deleted; packages fail, hang or
// cannot be pulled; pods come and go, some protected, some under a disruption budget; the reconciler is killed or overlaps with
// its successor; requests fail, or take effect without an answer; watches break.
//
// A witness of its own checks the invariants all the time: budgets from watches of nodes and ledger in the order of their
// resource versions, executions from the pods, everything else from the API server's request log. At the end the noise stops, and
// everything has to converge.
package soak
