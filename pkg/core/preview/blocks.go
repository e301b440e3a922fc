package preview

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// inTheWay are the reasons that nobody but people, other pods or time takes away. Turns of other nodes are not among them.
var inTheWay = []plan.Code{
	plan.WaitingForWindow, plan.BudgetIsZero, plan.Halted, plan.Paused, plan.Disabled, plan.Unresolved, plan.Standby, plan.RecordUnreadable,
	plan.NotAdopted, plan.NodeNotReady, plan.Yielding,
}

// blocks are what would hold up the affected nodes now: pods, taints, closed windows, nodes that are away.
func (w *work) blocks() {
	b := blocks{}
	for _, o := range w.after {
		if o.Excluded != "" && w.changed(o.NodeWright) {
			b.add(o.NodeWright, string(o.Excluded), o.Node, o.Message)
		}
		if w.affected[o.NodeWright][o.Node] {
			b.pods(o)
		}
	}
	for _, r := range plan.Compute(w.inputOf(w.wanted())).Reasons {
		if w.affected[r.NodeWright][r.Node] && slices.Contains(inTheWay, r.Code) {
			b.add(r.NodeWright, string(r.Code), r.Node, r.Message)
		}
	}
	w.plan.Blocks = append(w.plan.Blocks, b.sorted()...)
}

func (w *work) changed(nodeWright string) bool {
	return slices.ContainsFunc(w.plan.NodeWrights, func(n NodeWright) bool { return n.Name == nodeWright && n.Effective })
}

// blocks by NodeWright and code.
type blocks map[[2]string]*Block

func (b blocks) add(nodeWright, code, node, message string) *Block {
	key := [2]string{nodeWright, code}
	if b[key] == nil {
		b[key] = &Block{NodeWright: nodeWright, Code: code, First: []string{}, Message: message}
	}
	one := b[key]
	one.Count++
	if len(one.First) < firstNames {
		one.First = append(one.First, node)
	}
	return one
}

// pods counts a node once for each cause, and all its pods.
func (b blocks) pods(o plan.Outlook) {
	counted := map[plan.BlockCause]*Block{}
	for _, pod := range o.Obstacles {
		if counted[pod.Cause] == nil {
			counted[pod.Cause] = b.add(o.NodeWright, string(pod.Cause), o.Node, pod.Message)
		}
		counted[pod.Cause].Pods++
	}
}

func (b blocks) sorted() []Block {
	var out []Block
	for _, one := range b {
		out = append(out, *one)
	}
	slices.SortFunc(out, func(x, y Block) int {
		return cmp.Or(cmp.Compare(x.NodeWright, y.NodeWright), cmp.Compare(x.Code, y.Code))
	})
	return out
}
