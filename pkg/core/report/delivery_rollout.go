package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// NodeWrightView is how one NodeWright of a Fleet stands.
type NodeWrightView struct {
	// Name of the NodeWright.
	Name string
	// Priority orders the words: the first that is not complete is spoken about.
	Priority int32
	// Current says that Status speaks about what the Fleet applied, not about what was there before.
	Current bool
	// Leaving says that it left the repository and is there until its uninstalls are done.
	Leaving bool
	// Status as the rollout wrote it.
	Status nwv1.NodeWrightStatus
}

// ViewOf reads a NodeWright. Its status is current if it is about the object's generation and about the content that the
// packages have now (wantedHash): a changed Package does not raise the generation of the NodeWrights that refer to it.
func ViewOf(nw *nwv1.NodeWright, wantedHash string) NodeWrightView {
	priority := cmp.Or(nw.Spec.Priority, nwv1.DefaultPriority)
	current := nw.Status.ObservedGeneration == nw.Generation && nw.Status.ContentHash == wantedHash && nw.DeletionTimestamp == nil
	return NodeWrightView{Name: nw.Name, Priority: priority, Current: current, Status: nw.Status}
}

// LeavingView reads a NodeWright that was deleted.
func LeavingView(nw *nwv1.NodeWright) NodeWrightView {
	view := ViewOf(nw, nw.Status.ContentHash)
	view.Leaving, view.Current = true, nw.Status.ObservedGeneration == nw.Generation
	return view
}

// complete: one that leaves is not before it is gone.
func (v NodeWrightView) complete() bool {
	return !v.Leaving && v.Current && v.Status.Status == nwv1.StatusComplete
}

// counts are the complete and the targeted nodes; nothing is complete under a status that speaks about earlier content.
func (v NodeWrightView) counts() (complete, total int32) {
	c, t, ok := strings.Cut(v.Status.CompleteNodes, "/")
	if !ok {
		return 0, 0
	}
	complete, total = number(c), number(t)
	if !v.Current {
		complete = 0
	}
	return complete, total
}

func number(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (v NodeWrightView) halted() bool {
	if !v.Current {
		return false
	}
	for _, c := range v.Status.CompartmentStatuses {
		if c.BatchState != nil && c.BatchState.ShouldStop {
			return true
		}
	}
	return false
}

// ended says that no node will go on by itself: each is complete or failed.
func (v NodeWrightView) ended() bool {
	complete, total := v.counts()
	return v.Current && v.Status.NodesFailed > 0 && complete+v.Status.NodesFailed >= total
}

// batch is the highest number among the compartments that are not done; 0 without a strategy.
func (v NodeWrightView) batch() int32 {
	var batch int32
	for _, c := range v.Status.CompartmentStatuses {
		if c.BatchState != nil && c.Completed+c.Failed < c.Matched {
			batch = max(batch, c.BatchState.CurrentBatch)
		}
	}
	return batch
}

// failureCodes are the reasons of nodes that failed.
var failureCodes = []plan.Code{
	plan.PackageFailed, plan.OutOfMemory, plan.StageTimeout, plan.InterruptFailed, plan.NodeLost, plan.DrainTimeout, plan.ImagePull,
	plan.ContainerCannotRun, plan.CrashLoop, plan.PodRefused, plan.Disrupted, plan.InterruptRefused, plan.InsufficientResources, plan.NoPod,
	plan.PodNotAcknowledged,
}

// failure words the first failed nodes: which, and what happened (package, stage, exit code).
func (v NodeWrightView) failure() string {
	for _, code := range failureCodes {
		i := slices.IndexFunc(v.Status.Reasons, func(r nwv1.ReasonCount) bool { return r.Reason == string(code) })
		if i < 0 {
			continue
		}
		r := v.Status.Reasons[i]
		if len(r.Nodes) == 0 || strings.Contains(r.Message, r.Nodes[0]) {
			return r.Message
		}
		return "node " + r.Nodes[0] + ": " + r.Message
	}
	return fmt.Sprintf("%d nodes failed", v.Status.NodesFailed)
}

// progress is `12/24 nodes, batch 3`.
func (v NodeWrightView) progress() string {
	if v.Leaving {
		return removalText(v.Status.Conditions)
	}
	complete, total := v.counts()
	if !v.Current && v.Status.CompleteNodes == "" {
		return "waiting for the first look at its nodes"
	}
	text := fmt.Sprintf("%d/%d nodes", complete, total)
	if batch := v.batch(); v.Current && batch > 0 {
		text += fmt.Sprintf(", batch %d", batch)
	}
	if v.Current && v.Status.NodesFailed > 0 {
		text += fmt.Sprintf(", %d failed: %s", v.Status.NodesFailed, v.failure())
	}
	return text + v.offline() + v.switchedOff()
}

// switchedOff says which switch somebody has set: nothing goes on before it is taken off.
func (v NodeWrightView) switchedOff() string {
	if v.Current && (v.Status.Status == nwv1.StatusPaused || v.Status.Status == nwv1.StatusDisabled) {
		return ", " + string(v.Status.Status)
	}
	return ""
}

// offline names the nodes that are waited for because they are away: no work of ours brings them back.
func (v NodeWrightView) offline() string {
	i := slices.IndexFunc(v.Status.Reasons, func(r nwv1.ReasonCount) bool { return r.Reason == string(plan.NodeNotReady) })
	if !v.Current || i < 0 {
		return ""
	}
	r := v.Status.Reasons[i]
	names := r.Nodes[:min(len(r.Nodes), 3)]
	text := fmt.Sprintf(", %d not Ready: %s", r.Count, strings.Join(names, ", "))
	if int(r.Count) > len(names) {
		text += ", …"
	}
	return text
}

// rollout is where the rollout of the applied revision stands.
type rollout struct {
	state   rolloutState
	message string
}

type rolloutState int

const (
	rolling rolloutState = iota
	complete
	halted
	failed
)

// rollout sums up the NodeWrights: done if all are, else the gravest of them speaks, else the first under way.
func (d Delivery) rollout() rollout {
	views := slices.Clone(d.NodeWrights)
	slices.SortFunc(views, func(a, b NodeWrightView) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	several := len(views) > 1 || slices.ContainsFunc(views, func(v NodeWrightView) bool { return v.Leaving })
	if i := slices.IndexFunc(views, NodeWrightView.halted); i >= 0 {
		return rollout{halted, named(several, views[i].Name, "halted: "+views[i].failure())}
	}
	open := slices.DeleteFunc(slices.Clone(views), NodeWrightView.complete)
	switch {
	case len(views) == 0:
		return rollout{complete, "no NodeWrights, nothing to roll out"}
	case len(open) == 0:
		return rollout{complete, completeText(views)}
	case !slices.ContainsFunc(open, func(v NodeWrightView) bool { return !v.ended() }):
		return rollout{failed, named(several, open[0].Name, open[0].progress())}
	}
	return rollout{rolling, named(several, open[0].Name, open[0].progress())}
}

func named(several bool, name, text string) string {
	if several {
		return "NodeWright/" + name + ": " + text
	}
	return text
}

func completeText(views []NodeWrightView) string {
	if len(views) == 1 {
		_, total := views[0].counts()
		return fmt.Sprintf("%d/%d nodes complete", total, total)
	}
	return fmt.Sprintf("all %d NodeWrights complete", len(views))
}

// RolledOut says whether every targeted node is complete at the applied revision.
func (d Delivery) RolledOut() bool { return d.Applied != "" && d.rollout().state == complete }

// Summary counts nodes; a node that several NodeWrights target counts once for each.
func (d Delivery) Summary() *fleetv1.RolloutSummary {
	if d.Applied == "" {
		return nil
	}
	var s fleetv1.RolloutSummary
	for _, v := range d.NodeWrights {
		c, t := v.counts()
		s.Complete, s.Total = s.Complete+c, s.Total+t
		if v.Current {
			s.Failed += v.Status.NodesFailed
		}
		s.Halted = s.Halted || v.halted()
	}
	return &s
}
