// Package protocol explores the rollout's protocol: it visits every state that a small cluster can reach while one or two
// reconcilers work on it, and looks for one in which a promise is broken. Everything is in the tests; run
//
//	go test -v ./test/protocol
//
// # What is explored
//
// The planner is the real one (plan.Compute). Around it stands a model of what the loop and the Actor do with a plan, one
// request at a time and in the real order: the ledger by compare-and-swap; then, node by node and in any order between
// nodes, the patch that tests UID and record, the deletion of Jobs, the look at the live node, the live list of its Jobs,
// and the creation of Jobs. The rest is a model of the API server (nodes with records and cordons, Jobs, the NodeWright, the
// ledger), of caches, of kubelets and of the agent's fence. Between any two requests, everything else may happen:
//
//   - a leader crashes and comes back, or a second process takes the lead while the first does not know it (leads);
//   - a request is not answered, and takes effect never, at once, or much later, after its sender died, too (late);
//   - a cache lags: a view shows older versions of nodes, Jobs and the NodeWright, each kind by itself, but never goes back,
//     and is no older than the process's own answered writes, or than the list that it made when it took the lead;
//   - a node is deleted and created anew under its name, on the same machine or on another (deletions);
//   - the NodeWright gets other content: a new round, also back to an earlier content (changes);
//   - a stage fails (failures), and people resume a halt or ask for a retry (resumes, retries).
//
// A world (see worlds_test.go) names its size: nodes, leaders, the ceiling, by how many versions of a kind a cache lags at
// most, and how often each disturbance happens. The exploration is complete for that size, without sampling; where a world
// names a depth, for all histories of so many moves. Crashes of the only leader are not counted: they happen at every point.
//
// # What must hold
//
// See invariants_test.go. In every state: no more nodes out of service or at work than the ceiling, counted on the
// cluster and not in anyone's books; records are their nodes' own, only advance and are never erased; order numbers are
// given once in a round; the ledger's counters only grow; a settled verdict does not change; nobody is admitted after a halt;
// a node that vanished at work counts as failed. On every machine: one execution at a time, of the newest round that it
// has seen, made for this machine; no stage that succeeded runs again in its round. And from every state a calm run, in which
// every request succeeds, comes to rest, with every admission confirmed, no turn left open, and no slot free while somebody
// waits.
//
// # How to read a counter-example
//
// The moves are numbered from the beginning; there is no shorter way to a breach. "from a stale view (nodes 1 behind)"
// says that the plan was made from nodes as they were one version ago. "gets no answer: it ..." is a request whose
// effect is still open; "a late request takes effect" is its effect. n1' is the second node of that name. If the breach
// needs no further disturbance, the moves after "from here on nothing is disturbed any more" are not numbered: they happen by
// themselves.
//
// TestEveryRuleIsNeeded leaves out one rule of the protocol after the other, and prints the breach that follows.
//
// # What is not modelled
//
// Time: retries are due at once, no deadline passes, nothing settles. More than one NodeWright, package or compartment;
// `advance: Rolling`; the cluster's budget; reboots, drains and protected pods; cordons and edits by others; suspended
// Jobs, image trouble and disrupted pods; labels that move; snapshots and uninstalls. The property tests of the planner and
// the crash tests on a real API server cover these, by sampling. A kind's caches are in step with each other; what the
// Actor's code does is modelled here by hand and tested against a real API server in test/rollout.
package protocol
