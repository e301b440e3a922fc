package simulate

import (
	"fmt"
	"slices"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// job is an execution that has not ended, with what it will do.
type job struct {
	plan.ExecutionKey
	name   string
	node   *plan.Node
	stages []nwv1.Stage
	// steps are how long the stages take, one for each.
	steps []Step
	// timeout of the whole execution; 0 is no bound.
	timeout time.Duration
	// suspended jobs begin anew when they are let go on.
	suspended bool
	// run counts how often the job was begun: what an earlier run planned does not happen.
	run int
}

// start creates an execution and lets it run.
func (w *world) start(n *plan.Node, s plan.ExecutionSpec) {
	name := jobName(s.ExecutionKey)
	if slices.ContainsFunc(n.Executions, func(e plan.Execution) bool { return e.Name == name }) {
		return
	}
	j := &job{ExecutionKey: s.ExecutionKey, name: name, node: n, stages: s.Stages, timeout: s.Timeout}
	for _, stage := range s.Stages {
		j.steps = append(j.steps, Step(stage))
	}
	if s.Interrupt != nil {
		j.steps = []Step{interruptStep(s.Interrupt.Type)}
	}
	n.Executions = append(slices.Clone(n.Executions), plan.Execution{
		ExecutionKey: s.ExecutionKey, Name: name, Node: n.Name, Compartment: s.Compartment, Batch: s.Batch, Order: &s.Order,
		State: plan.ExecutionRunning, Stage: s.Stages[0], Created: w.now,
	})
	w.running[name] = j
	w.run(j)
}

// resume lets an execution that the scenario begins with go on: all of it is still to come.
func (w *world) resume(n *plan.Node, e plan.Execution) {
	j := &job{ExecutionKey: e.ExecutionKey, name: e.Name, node: n, stages: stagesOf(e), suspended: e.Suspended}
	for _, stage := range j.stages {
		j.steps = append(j.steps, Step(stage))
	}
	if e.Phase == plan.PhaseInterrupt {
		j.steps = []Step{StepNoop}
		if i := n.Records[e.NodeWright].Interrupt; i != nil {
			j.steps = []Step{interruptStep(i.Type)}
		}
	}
	w.running[e.Name] = j
	w.run(j)
}

// stagesOf guesses the stages of an execution of which only its phase is known.
func stagesOf(e plan.Execution) []nwv1.Stage {
	switch e.Phase {
	case plan.PhaseInstall:
		if e.Stage == nwv1.StageUpgrade {
			return []nwv1.Stage{nwv1.StageUpgrade, nwv1.StageConfig}
		}
		return []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig}
	case plan.PhaseConfig, plan.PhaseCheck, plan.PhaseVerify:
		return []nwv1.Stage{nwv1.StageConfig}
	case plan.PhasePost:
		return []nwv1.Stage{nwv1.StagePostInterrupt}
	case plan.PhaseUninstall:
		return []nwv1.Stage{nwv1.StageUninstall}
	case plan.PhaseInterrupt:
	}
	return []nwv1.Stage{nwv1.StageInterrupt}
}

// run plans how a job ends.
func (w *world) run(j *job) {
	if j.suspended {
		return
	}
	j.run++
	failsAt, forGood := w.chance.failsAt(j.node.Name, j.ExecutionKey, j.stages)
	if j.steps[0] == StepReboot && (failsAt < 0 || forGood) {
		w.reboots(j.node, forGood, w.ifStill(j, func(e *plan.Execution) {
			e.State, e.ExitCode = plan.ExecutionFailed, 137 // the machine took it down; the boot ID is the proof
		}))
		return
	}
	if j.Phase == plan.PhaseCheck { // an imagined host never has the wanted state already
		failsAt = 0
	}
	total, stage := w.lasts(j, failsAt)
	if j.Phase == plan.PhaseCheck {
		total = time.Second
	}
	w.after(total, w.ifStill(j, func(e *plan.Execution) {
		switch {
		case j.timeout > 0 && total >= j.timeout:
			w.fail(e, j, stage)
			e.TimedOut, e.ExitCode, e.Message = true, 0, "did not end within "+j.timeout.String()
		case failsAt >= 0:
			w.fail(e, j, failsAt)
		default:
			e.State, e.Stage, e.Done = plan.ExecutionSucceeded, "", j.stages
		}
	}))
}

// lasts is how long a job runs until it ends, fails or is ended by its timeout, and the index of its last stage.
func (w *world) lasts(j *job, failsAt int) (total time.Duration, last int) {
	for i, step := range j.steps {
		total += w.durations[step]
		if j.timeout > 0 && total >= j.timeout {
			return j.timeout, i
		}
		if i == failsAt {
			return total, i
		}
	}
	return total, len(j.steps) - 1
}

func (w *world) fail(e *plan.Execution, j *job, stage int) {
	e.State, e.Stage, e.Done, e.ExitCode = plan.ExecutionFailed, j.stages[stage], j.stages[:stage], 1
	e.Message = "simulated failure"
}

// ifStill ends a job as said, if it is still that run of it.
func (w *world) ifStill(j *job, end func(*plan.Execution)) func() {
	run := j.run
	return func() {
		if w.running[j.name] != j || j.run != run || j.suspended {
			return
		}
		delete(w.running, j.name)
		j.node.Executions = slices.Clone(j.node.Executions)
		for i := range j.node.Executions {
			if e := &j.node.Executions[i]; e.Name == j.name {
				end(e)
				e.Finished = w.now
			}
		}
	}
}

// stop deletes an execution.
func (w *world) stop(n *plan.Node, name string) {
	delete(w.running, name)
	n.Executions = slices.DeleteFunc(slices.Clone(n.Executions), func(e plan.Execution) bool { return e.Name == name })
}

// suspend suspends executions or lets them go on; what they did before is lost.
func (w *world) suspend(n *plan.Node, names []string, suspended bool) {
	if len(names) == 0 {
		return
	}
	n.Executions = slices.Clone(n.Executions)
	for i := range n.Executions {
		if e := &n.Executions[i]; slices.Contains(names, e.Name) {
			e.Suspended, e.Created = suspended, w.now
		}
	}
	for _, name := range names {
		if j := w.running[name]; j != nil && j.suspended != suspended {
			j.suspended = suspended
			w.run(j)
		}
	}
}

// discardEnded forgets executions that ended, as the reconciler does later.
func (w *world) discardEnded(n *plan.Node, nodeWright string) {
	n.Executions = slices.DeleteFunc(slices.Clone(n.Executions), func(e plan.Execution) bool {
		return e.NodeWright == nodeWright && e.Ended()
	})
}

func jobName(k plan.ExecutionKey) string {
	return fmt.Sprintf("%s/%s/%d/%s/%s/%d/%d", k.NodeWrightUID, k.NodeUID, k.Round, k.Package, k.Phase, k.Wave, k.Attempt)
}
