package simulate

import (
	"strconv"
	"time"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Offset is a virtual time since Scenario.Start. Its JSON form is seconds.
type Offset time.Duration

// MarshalJSON writes seconds, with fractions only where there are some.
func (o Offset) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(o).Seconds(), 'f', -1, 64), nil
}

// Result is what a scenario comes to.
type Result struct {
	// Start is Scenario.Start; every Offset counts from it.
	Start time.Time `json:"start"`
	// End is when the last thing happened.
	End Offset `json:"endSeconds"`
	// Problem is why the simulation was given up before it came to rest; empty if it did.
	Problem string `json:"problem,omitempty"`
	// Nodes is how many nodes there are; Imagined how they were made up, if they were.
	Nodes    int     `json:"nodes"`
	Imagined []Group `json:"imagined,omitempty"`
	// Rollouts: one for each NodeWright, in order of priority.
	Rollouts []Rollout `json:"nodeWrights"`
	// OutOfService counts the nodes that are cordoned by any NodeWright.
	OutOfService Load `json:"outOfService"`
	// Passes is how often the planner was asked.
	Passes int `json:"passes"`
}

// Group is how many nodes were imagined with the same labels.
type Group struct {
	Count  int               `json:"count"`
	First  string            `json:"first"`
	Last   string            `json:"last"`
	Labels map[string]string `json:"labels"`
	// Compartment that the labels were made for; empty: for none, which is the default.
	Compartment string `json:"compartment,omitempty"`
}

// Outcome is how the rollout of a NodeWright ends.
type Outcome string

const (
	// Complete: every targeted node is complete.
	Complete Outcome = "Complete"
	// Failed: every targeted node had its turn, and some failed.
	Failed Outcome = "Failed"
	// Halted: a compartment halted after bad batches.
	Halted Outcome = "Halted"
	// Stuck: nodes wait for something that nothing in the scenario brings about; Rollout.Reasons say what.
	Stuck Outcome = "Stuck"
	// NoNodes: the NodeWright targets no node.
	NoNodes Outcome = "NoNodes"
)

// Rollout is what happens to one NodeWright.
type Rollout struct {
	NodeWright string  `json:"name"`
	Outcome    Outcome `json:"outcome"`
	// Total nodes that are targeted, with their states at the end; Excluded are selected and not targeted.
	Total    int `json:"total"`
	Complete int `json:"complete"`
	Failed   int `json:"failed"`
	Waiting  int `json:"waiting"`
	Excluded int `json:"excluded"`
	// Begin is the first admission, End the end of the last turn. Both are 0 if nobody was admitted.
	Begin Offset `json:"beginSeconds"`
	End   Offset `json:"endSeconds"`
	// Compartments sorted by name.
	Compartments []Compartment `json:"compartments"`
	// Failures are the nodes that failed, sorted by name.
	Failures []Failure `json:"failures,omitempty"`
	// Reasons of the nodes that are not complete at the end, sorted by code.
	Reasons []Reason `json:"reasons,omitempty"`
	// OutOfService counts the nodes that this NodeWright holds cordoned.
	OutOfService Load `json:"outOfService"`
	// Timeline is the number of nodes in each state, wherever one changes.
	Timeline []Point `json:"timeline"`
}

// Compartment is what happens in one compartment.
type Compartment struct {
	Name string `json:"name"`
	// Strategy is fixed, linear, exponential or none.
	Strategy string `json:"strategy"`
	// Nodes and Ceiling at the end.
	Nodes   int     `json:"nodes"`
	Ceiling int     `json:"ceiling"`
	Batches []Batch `json:"batches,omitempty"`
	// Halt, if it came to one.
	Halt *Halt `json:"halt,omitempty"`
}

// Verdict is how a batch was judged.
type Verdict string

const (
	// Good: nobody failed.
	Good Verdict = "good"
	// Tolerated: nodes failed, and it counts for nothing: few enough (batchThreshold), or late enough (safetyLimit).
	Tolerated Verdict = "tolerated"
	// Bad: too many nodes failed.
	Bad Verdict = "bad"
	// Halting: a bad batch that halted the compartment.
	Halting Verdict = "halt"
	// Open: the batch did not end.
	Open Verdict = "open"
)

// Batch is one admission of nodes.
type Batch struct {
	Round  int64 `json:"round"`
	Number int   `json:"number"`
	// Nodes in the order of their admission.
	Nodes   []string `json:"nodes"`
	Begin   Offset   `json:"beginSeconds"`
	End     Offset   `json:"endSeconds"` // of an open batch: the end of the simulation
	Verdict Verdict  `json:"verdict"`
	Failed  int      `json:"failed,omitempty"`
}

// Halt is the end of a compartment's admissions.
type Halt struct {
	Batch int    `json:"batch"`
	At    Offset `json:"atSeconds"`
	// Message is the planner's: nodes, package, stage, exit code.
	Message  string    `json:"message"`
	Failures []Failure `json:"failures"`
}

// Failure is why a node failed.
type Failure struct {
	Node     string `json:"node"`
	Package  string `json:"package,omitempty"`
	Stage    string `json:"stage,omitempty"`
	ExitCode int32  `json:"exitCode,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message,omitempty"`
}

// Reason is why nodes are not complete.
type Reason struct {
	Code  plan.Code `json:"code"`
	Count int       `json:"count"`
	// Nodes are the first few; Message is that of the first.
	Nodes   []string `json:"nodes"`
	Message string   `json:"message"`
}

// Load is a number of nodes over time.
type Load struct {
	// Peak is the most at once.
	Peak int `json:"peak"`
	// NodeSeconds is the sum over all nodes of the time that they are out of service.
	NodeSeconds float64 `json:"nodeSeconds"`
	// AtEnd is how many are left.
	AtEnd int `json:"atEnd"`
}

// Point is the state of a rollout from an instant on. The numbers, without OutOfService, add up to Rollout.Total.
type Point struct {
	At           Offset `json:"atSeconds"`
	Complete     int    `json:"complete"`
	InProgress   int    `json:"inProgress"`
	Failed       int    `json:"failed"`
	Waiting      int    `json:"waiting"`
	OutOfService int    `json:"outOfService"`
}

// Ceiling is how many nodes the compartments allow at work together.
func (r Rollout) Ceiling() int {
	sum := 0
	for _, c := range r.Compartments {
		sum += c.Ceiling
	}
	return sum
}
