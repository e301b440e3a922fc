// Package plan decides everything that happens to a node: desired state + observed state + the clock → decisions,
// reasons, statuses, and the next instant at which time alone changes the answer. It is pure: same input, same output,
// bit for bit, and no error result: an odd node becomes a reason.
//
//	Compute (plan.go)         one pass: rounds → turns → admissions → statuses
//	  view.go, member.go      one NodeWright, and one node under it, in this pass
//	  cause.go                why nodes wait; member.because is the only place that sets a reason
//	  targets.go              which nodes a NodeWright is for
//	  selectors.go            labels → compartments, without asking each one
//	  rounds.go               rollout identity: when a round begins and when it is complete
//	  compartments.go         assignment and ceilings
//	  slots.go                who holds a slot of a compartment or of the cluster's budget
//	  batches.go              verdicts and halts
//	  candidates.go           who waits for admission, in which order, and who may not be admitted yet
//	  admission.go            who is admitted next, and why the others wait
//	  strategy.go             the three strategies
//	  turn.go                 one node's turn: the gates from cordon to uncordon
//	  begin.go, ending.go     how phases begin, and how turns end, fail, heal and are taken back
//	  work.go, graph.go       what is left to do on a node, and in which order
//	  execution.go            from seen executions to recorded results
//	  interrupts.go           merging, starting and proving interrupts
//	  drain.go                which pods are protected, must leave, or stand in the way
//	  tidy.go, sweep.go       records of nodes at rest; what NodeWrights that are gone left
//	  status.go               the fold of the reasons
//
// What the API describes and this package does not decide yet. Each is accepted and has no effect:
//
//   - `windows` of a DeploymentPolicy: nodes are admitted at any time;
//   - `order: Idle`: nodes go by name, as with `order: Name`;
//   - `groupBy` of a compartment: a batch may split a group;
//   - `protectedPods: Yield`: a node with protected pods is admitted, cordoned and waited for, as with `Hold`;
//   - the runtime-required taint is tolerated and not removed, its nodes take a slot like all others, and
//     `autoTaintNewNodes` taints none;
//   - the verbs `reset`, `rerun` and `abandon-uninstall`; `verifyInterval` and `onDrift`.
//
// Under `advance: Rolling` a node that vanishes at work is not counted in a verdict: its order number is not on its
// execution. One that fails first, and vanishes then, is.
//
// It may import the API types, the core packages desired and noderecord, and pure libraries. Not the clock, not the
// network, not client-go.
package plan
