package preview

import "github.com/fleetwright/fleetwright/pkg/core/finding"

// Schema is the version of Plan's JSON form. Fields are added within a version, never renamed or given another meaning.
const Schema = "fleetwright.dev/plan/v1"

// Result is what a change comes to.
type Result string

const (
	// None: the objects are the same.
	None Result = "none"
	// Changes: objects differ, whether or not a node has to do anything for it.
	Changes Result = "changes"
	// Errors: the change has errors and cannot be applied; nothing else is said about it.
	Errors Result = "errors"
)

// Source is where the nodes come from.
type Source string

const (
	// NoNodes: none are known; the plan is about objects alone.
	NoNodes Source = "none"
	// Saved: a list of nodes in a file.
	Saved Source = "saved"
	// Cluster: a cluster was read.
	Cluster Source = "cluster"
)

// Change is what happens to an object or a package.
type Change string

// Kinds of changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Plan is the consequences of a change.
type Plan struct {
	Schema string `json:"schema"`
	// Tool is the version of the program.
	Tool   string `json:"tool"`
	Path   string `json:"path"`
	Result Result `json:"result"`
	// Compared says which two states.
	Compared Comparison `json:"compared"`
	// Objects is how many the new state has.
	Objects int `json:"objects"`
	// Findings of the new state.
	Findings []finding.Finding `json:"findings"`
	// Files that the build reads and that differ, sorted.
	Files []string `json:"files"`
	Nodes Nodes    `json:"nodes"`
	// Affected counts the nodes that have something to do because of the change; a node counts once.
	Affected Tally `json:"affected"`
	// NodeWrights that differ, by name.
	NodeWrights []NodeWright `json:"nodeWrights"`
	// Others are DeploymentPolicies and Packages that differ, by kind and name.
	Others []Object `json:"others"`
	// Rollouts are the predicted ones, in order of priority; none if no node is affected.
	Rollouts []Rollout `json:"rollouts"`
	// Seconds from the start until the last rollout is at rest; Problem is why the prediction was given up before.
	Seconds float64 `json:"seconds"`
	Problem string  `json:"problem,omitempty"`
	// OutOfService is the most nodes that are cordoned at once.
	OutOfService int `json:"outOfService"`
	// Blocks are what is in the way now.
	Blocks []Block `json:"blocks"`
	// Warnings are what to look at twice.
	Warnings []Warning `json:"warnings"`
	// Inert are changes of which nothing follows on a node.
	Inert []Inert `json:"inert"`
	// Notes are sentences about what could not be read.
	Notes []string `json:"notes"`
}

// Comparison says what was compared with what.
type Comparison struct {
	// Base names the old state as people know it, BaseCommit its commit; empty: there is none, and everything is new.
	Base       string `json:"base"`
	BaseCommit string `json:"baseCommit,omitempty"`
	// Head names the new state, HeadCommit the commit that it stands on.
	Head       string `json:"head"`
	HeadCommit string `json:"headCommit,omitempty"`
	// Behind is the tip of the branch that Base was found on, where that went on since: its changes are not in the plan.
	Behind string `json:"behind,omitempty"`
	// BaseErrors is how many errors the old state has: what they concern counts as new.
	BaseErrors int `json:"baseErrors,omitempty"`
}

// Nodes says which nodes the plan is for.
type Nodes struct {
	Source Source `json:"source"`
	Count  int    `json:"count"`
	// Assumed says that the list has no record of any rollout, so that its nodes are taken to be complete at the old state.
	Assumed bool `json:"assumed,omitempty"`
	// PodsKnown says that the pods on the nodes were seen.
	PodsKnown bool `json:"podsKnown"`
}

// Tally counts nodes by the strongest thing that happens to them. Uninstall counts, among all of them, those from which a
// package is taken off.
type Tally struct {
	Nodes          int `json:"nodes"`
	Reboot         int `json:"reboot"`
	ServiceRestart int `json:"serviceRestart"`
	DrainOnly      int `json:"drainOnly"`
	NoInterrupt    int `json:"noInterrupt"`
	Uninstall      int `json:"uninstall"`
}

// Object is one that differs.
type Object struct {
	Kind     string    `json:"kind"`
	Name     string    `json:"name"`
	Change   Change    `json:"change"`
	Settings []Setting `json:"settings,omitempty"`
}

// Setting is a field that differs. Old and New are only filled for scalars that cannot be secret.
type Setting struct {
	Field  string `json:"field"`
	Change Change `json:"change"`
	Old    string `json:"old,omitempty"`
	New    string `json:"new,omitempty"`
}

// NodeWright is one that differs, or whose packages do.
type NodeWright struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
	// Effective says that what is put on a host differs.
	Effective bool      `json:"effective"`
	Packages  []Package `json:"packages"`
	// Settings other than packages.
	Settings []Setting `json:"settings"`
	// Effects by compartment; none without nodes.
	Effects []Effect `json:"effects"`
	// Selected nodes now; Joining were not selected before, Leaving are not any more.
	Selected int `json:"selected"`
	Joining  int `json:"joining"`
	Leaving  int `json:"leaving"`
	// Anyway counts nodes that have something to do whether or not the change is merged.
	Anyway int `json:"anyway"`
}

// Package is one that differs.
type Package struct {
	Name   string `json:"name"`
	Change Change `json:"change"`
	// Old and New are nil where the package is not there.
	Old *Version `json:"old,omitempty"`
	New *Version `json:"new,omitempty"`
	// Env and ConfigMap hold names, never values.
	Env       Keys `json:"env"`
	ConfigMap Keys `json:"configMap"`
	// EnvOrder says that only the order of env differs, which counts: a variable may use an earlier one.
	EnvOrder bool `json:"envOrder,omitempty"`
	// Inert are fields that differ and start nothing.
	Inert []string `json:"inert,omitempty"`
	// Stages on a node that is complete at the old state, and the interrupt behind them.
	Stages    []string `json:"stages"`
	Interrupt string   `json:"interrupt,omitempty"`
	Services  []string `json:"services,omitempty"`
	// Uninstall says that something is taken off the host.
	Uninstall bool `json:"uninstall,omitempty"`
	// Checked says that nothing happens where the checks find the wanted state.
	Checked bool `json:"checked,omitempty"`
}

// Version is what identifies a package's content.
type Version struct {
	Version string `json:"version"`
	Image   string `json:"image"`
	Digest  string `json:"digest,omitempty"`
}

// Keys are the names of keys that differ, sorted.
type Keys struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// Empty reports whether no key differs.
func (k Keys) Empty() bool { return len(k.Added)+len(k.Changed)+len(k.Removed) == 0 }

// Effect counts the nodes of one compartment that have something to do because of the change.
type Effect struct {
	Compartment string `json:"compartment"`
	Tally
	// First names of the nodes.
	First []string `json:"first"`
}

// Rollout is the predicted one of a NodeWright.
type Rollout struct {
	NodeWright string `json:"nodeWright"`
	// Outcome is one of simulate's.
	Outcome string  `json:"outcome"`
	Begin   float64 `json:"beginSeconds"`
	End     float64 `json:"endSeconds"`
	// Reasons of nodes that would not get done.
	Reasons []Block `json:"reasons,omitempty"`
	Lanes   []Lane  `json:"compartments"`
}

// Lane is the batches of one compartment.
type Lane struct {
	Compartment string `json:"name"`
	Strategy    string `json:"strategy"`
	Nodes       int    `json:"nodes"`
	Ceiling     int    `json:"ceiling"`
	Batches     []Run  `json:"batches"`
}

// Run is one batch, or several in a row of the same size.
type Run struct {
	From int `json:"from"`
	To   int `json:"to"`
	// Size of each, in nodes.
	Size  int     `json:"nodes"`
	Begin float64 `json:"beginSeconds"`
	End   float64 `json:"endSeconds"`
	// First and Last node.
	First string `json:"firstNode"`
	Last  string `json:"lastNode"`
	// Open says that the prediction ends before the batch does.
	Open bool `json:"open,omitempty"`
}

// Block is what is in the way of nodes that have something to do.
type Block struct {
	NodeWright string `json:"nodeWright"`
	// Code is a plan.Code or a plan.BlockCause.
	Code string `json:"code"`
	// Count of nodes, and the first names.
	Count int      `json:"nodes"`
	First []string `json:"first"`
	// Pods counts the pods in the way; 0 where it is none.
	Pods int `json:"pods,omitempty"`
	// Message is the planner's sentence for the first node or pod.
	Message string `json:"message"`
}

// Code of a warning.
type Code string

// Codes of warnings.
const (
	// NoFailureThreshold: bad batches never halt a rollout that disturbs nodes.
	NoFailureThreshold Code = "NoFailureThreshold"
	// FullBudget: all nodes of a compartment may be disturbed at once.
	FullBudget Code = "FullBudget"
	// ZeroBudget: a budget of 0 admits nobody.
	ZeroBudget Code = "ZeroBudget"
	// NothingSelected: the NodeWright selects none of the nodes.
	NothingSelected Code = "NothingSelected"
	// NoDigest: a package without a digest; whoever can move the tag changes what runs as root.
	NoDigest Code = "NoDigest"
	// RemovedWithoutUninstall: the package is forgotten, and its files stay.
	RemovedWithoutUninstall Code = "RemovedWithoutUninstall"
	// DowngradeWithoutUninstall: the older version is put over the newer one.
	DowngradeWithoutUninstall Code = "DowngradeWithoutUninstall"
	// Uninstalls: something is taken off the hosts.
	Uninstalls Code = "Uninstalls"
	// SameVersion: the content of a version differs and its number does not.
	SameVersion Code = "SameVersion"
	// NodesLeave: nodes are not selected any more; what is on them stays.
	NodesLeave Code = "NodesLeave"
	// OutOfScope: the NodeWright wants what the scope of the Fleet that delivers it does not allow; nothing of it starts.
	OutOfScope Code = "OutOfScope"
	// CompartmentRemoved: a policy loses a compartment; its nodes fall under another.
	CompartmentRemoved Code = "CompartmentRemoved"
)

// Warning is what a reviewer should look at twice.
type Warning struct {
	Code        Code   `json:"code"`
	NodeWright  string `json:"nodeWright,omitempty"`
	Package     string `json:"package,omitempty"`
	Compartment string `json:"compartment,omitempty"`
	Policy      string `json:"policy,omitempty"`
	// Version that is meant, Count of nodes; where they say something.
	Version string `json:"version,omitempty"`
	Count   int    `json:"nodes,omitempty"`
}

// Inert is a change of which nothing follows on a node. Without a kind it is about files alone.
type Inert struct {
	Kind    string   `json:"kind,omitempty"`
	Name    string   `json:"name,omitempty"`
	Package string   `json:"package,omitempty"`
	Fields  []string `json:"fields"`
}
