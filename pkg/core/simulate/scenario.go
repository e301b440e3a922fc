package simulate

import (
	"maps"
	"slices"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Scenario is what Run starts from. It is not changed.
type Scenario struct {
	// Start is the virtual clock at the beginning. It matters to maintenance windows and to nothing else.
	Start time.Time
	// NodeWrights in any order; see NodeWrights for how they come from manifests.
	NodeWrights []plan.NodeWright
	// Nodes as they are at the start, with their records, cordons and executions; see Imagine for nodes that do not exist.
	// Executions that are under way end as if they had just begun. Where PodsListed is set, Pods leave when they are
	// asked to; elsewhere one pod on each node does.
	Nodes []plan.Node
	// Imagined says how Nodes were made up, if they were. It is repeated in the result.
	Imagined []Group
	// Budgets are the cluster-wide caps of Fleets.
	Budgets []plan.Budget
	// Ledger at the start. Empty: nothing was rolled out yet, or nobody knows: then nodes that are not complete form a
	// new round.
	Ledger fleetv1.LedgerSpec
	// Snapshots are the stored definitions of what is on the nodes, by hash.
	Snapshots map[string]desired.Package
	// Settings of the reconciler.
	Settings plan.Settings
	// Durations of steps; those that are missing last as long as in DefaultDurations.
	Durations Durations
	// Failures say what goes wrong. Zero: nothing.
	Failures Failures
	// Seed decides everything that is left to chance: equal scenarios with equal seeds have equal results.
	Seed uint64
	// Limit bounds the virtual time. Default: one year.
	Limit time.Duration
	// Passes bounds how often the planner is asked, for who cannot wait. Default 0: no bound.
	Passes int
}

// Step is something that takes time on a node.
type Step string

// Steps are stages of packages, interrupts, and the drain before them.
const (
	StepApply              = Step(nwv1.StageApply)
	StepUpgrade            = Step(nwv1.StageUpgrade)
	StepConfig             = Step(nwv1.StageConfig)
	StepPostInterrupt      = Step(nwv1.StagePostInterrupt)
	StepUninstall          = Step(nwv1.StageUninstall)
	StepNoop               = Step(nwv1.InterruptNoop)
	StepService            = Step(nwv1.InterruptService)
	StepRestartAllServices = Step(nwv1.InterruptRestartAllServices)
	StepReboot             = Step(nwv1.InterruptReboot)
	// StepDrain is how long pods take to leave a node once they are asked to.
	StepDrain = Step("drain")
)

// Durations is how long each step takes on every node.
type Durations map[Step]time.Duration

// DefaultDurations are guesses for a server with accelerators; measure your own. A reboot lasts until the node is Ready
// again.
func DefaultDurations() Durations {
	return Durations{
		StepApply: time.Minute, StepUpgrade: time.Minute, StepConfig: 10 * time.Second, StepPostInterrupt: 10 * time.Second,
		StepUninstall: 30 * time.Second, StepNoop: time.Second, StepService: 15 * time.Second,
		StepRestartAllServices: 30 * time.Second, StepReboot: 6 * time.Minute, StepDrain: 30 * time.Second,
	}
}

// Steps are the names of all steps, sorted.
func Steps() []Step { return slices.Sorted(maps.Keys(DefaultDurations())) }

// withDefaults fills in what is missing.
func (d Durations) withDefaults() Durations {
	out := DefaultDurations()
	maps.Copy(out, d)
	return out
}

// Failures say what goes wrong. A node that fails does so in every attempt, so that its turn ends as failed.
type Failures struct {
	// Nodes fail by name, under every NodeWright.
	Nodes []string
	// Percent of nodes that fail under each NodeWright, between 0 and 100: each node by chance, whatever happens to others.
	Percent float64
	// Stage in which they fail; a reboot that fails is a machine that does not come back. Empty: the first that runs.
	Stage nwv1.Stage
	// FlakyPercent of all executions fail although their node is good, between 0 and 100; they are tried again.
	FlakyPercent float64
}

// FailureStages are the stages in which nodes can be made to fail.
func FailureStages() []nwv1.Stage {
	return []nwv1.Stage{
		nwv1.StageApply, nwv1.StageUpgrade, nwv1.StageConfig, nwv1.StageInterrupt, nwv1.StagePostInterrupt, nwv1.StageUninstall,
	}
}
