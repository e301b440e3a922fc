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
//	  admission.go            when a compartment opens its next batch, and what the ledger says of it
//	  selection.go            who is in it: nodes or whole groups in order, while batch, slots and budgets have room
//	  occupancy.go            which nodes carry pods that speak against disturbing them, and who yields to them
//	  runtimerequired.go      new nodes that need no slot, and when their taint goes
//	  blockers.go             the nodes that others wait for, by name
//	  strategy.go             the three strategies
//	  turn.go                 one node's turn: the gates from cordon to uncordon
//	  begin.go, ending.go     how phases begin, and how turns end, fail, heal and are taken back
//	  verbs.go                what people ask for: retry, rerun, reset
//	  reboot.go               whose reboot it was, and which packages have to run again for it
//	  work.go, graph.go       what is left to do on a node, and in which order
//	  resolve.go              a NodeWright with everything that it refers to
//	  execution.go            from seen executions to recorded results
//	  execution_types.go      what an execution is
//	  interrupts.go           merging, starting and proving interrupts
//	  drain.go                which pods are protected, must leave, or stand in the way
//	  verify.go               periodic checks of nodes that are complete, and what becomes of drift
//	  uninstall.go            NodeWrights that are being deleted, and uninstalls that are given up
//	  tidy.go, sweep.go       records of nodes at rest; what NodeWrights that are gone left
//	  status.go               the fold of the reasons
//	  explain.go              since when a reason holds, and what would end it
//	  outlook.go              all that is left to do on a node, for previews
//
// Where two rules meet, this one holds:
//
//   - outside of the windows nobody is admitted, new runtime-required nodes neither. A node that is cordoned and under way
//     when its content changes is finished all the same;
//   - with `protectedPods: Yield` a node is given back to protected pods as long as nothing ran in its turn. After that, and
//     when a new round finds it under way, it keeps its slot;
//   - a drain that is under way goes on while its node is not Ready, so that what nobody runs any more can leave; nothing starts;
//   - a node that failed and that we hold cordoned counts as failed also when a taint excludes it by now; it is not admitted
//     before the taint is gone;
//   - the nodes of a group that cannot be admitted now (NotReady, or behind another NodeWright) are not waited for, and one
//     that is out of service already does not wait for the rest of its group;
//   - a batch of which a node was given back, or of which none ended, does not grow;
//   - runtime-required nodes that failed are tried again in a slot; so are those that an earlier object of the name prepared.
//
// A Fleet's budget can set two NodeWrights against each other: the second holds cordoned nodes that wait for the first, which
// gained an interrupt under way and waits for the room that they hold. The reasons name both; a larger budget ends it.
//
// It may import the API types, the core packages desired and noderecord, and pure libraries. Not the clock, not the
// network, not client-go.
package plan
