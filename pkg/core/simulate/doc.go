// Package simulate shows what a policy will do before anything happens: it drives plan.Compute forward over imagined
// outcomes in virtual time, and reports batches, halts, the time to finish and the nodes out of service.
//
//	Run (run.go)                  plan → carry out → next event, until nothing changes any more
//	  scenario.go                 what is simulated: objects, nodes, durations, failures
//	  objects.go, imagine.go      NodeWrights from manifests; nodes that match their selectors
//	  world.go, execution.go      the imagined cluster: records, cordons, executions, reboots, drains
//	  clock.go, chance.go         virtual time, and outcomes that do not depend on the order of events
//	  recorder.go, batches.go     what is written down on the way
//	  result.go                   what comes out
//	Text (text.go), Chart (chart.go, plot.go)  the result for people: a table, a drawing
//
// No rule of the planner is repeated here: who is admitted, when a batch is judged and why a node waits is read from the
// planner's ledger, records, reasons and statuses. What the imagined cluster leaves out: PodDisruptionBudgets and
// protected pods (it knows no pods but one that leaves when asked), image pulls, nodes that come and go, other people.
//
// It may import the API types, the core packages desired, noderecord and plan, and pure libraries.
package simulate
