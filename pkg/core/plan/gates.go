package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// passGates are what stands before a stage of a disruptive turn, and before its interrupt, in this order:
//
//	cordoned (seen in the API) → no protected pod → every pod that had to leave is gone
//
// They are asked again before each start: an uncordon or a new pod in between closes them.
func (t *turn) passGates() bool { return t.cordoned() && t.empty() }

// waitUntilReady says that the node is away. A drain that is under way goes on meanwhile: pods that nobody runs any more may
// leave, and what does not let them go is said.
func (t *turn) waitUntilReady(left work) {
	if t.rec.DrainSince != nil && left.disruptive() && !t.passGates() && t.m.code() != Draining {
		return
	}
	t.because(NodeNotReady, "", "the node is not Ready")
}

func (t *turn) cordoned() bool {
	n := t.m.node
	if !t.rec.Disruptive { // an interrupt that was added under way: the turn needs room that it did not ask for
		if full := t.room(); full != nil {
			t.m.because(full)
			return false
		}
		t.rec.Disruptive = true
	}
	if n.Unschedulable && (len(n.CordonOwners) == 0 || t.m.ownsCordon()) {
		return true // ours, or a foreign one, which is used but not owned
	}
	t.d.Cordon = CordonTake
	t.act(ActionCordon)
	t.because(Cordoning, "", "the node is being cordoned")
	return false
}

// room takes the room for the node in the Fleets' budgets, or says which has none. A node that is out of use needs none.
func (t *turn) room() *cause {
	if t.p.outOfUse(t.m.node, t.rec) {
		return nil
	}
	return t.p.clusterRoom(t.m.node)
}

// busyElsewhere is what other NodeWrights do on the node.
func (p *pass) busyElsewhere(n *Node, nodeWright string) activity {
	a := p.begun[n.UID]
	for name, rec := range n.Records {
		if name == nodeWright {
			continue
		}
		a.interrupt = a.interrupt || rec.Interrupt != nil && rec.Outcome == noderecord.Open
		for _, pkg := range rec.Packages {
			a.execution = a.execution || pkg.Running != "" && rec.Outcome == noderecord.Open
		}
	}
	for _, e := range n.Executions { // also of turns that have ended: they may still be at work
		if e.NodeWright != nodeWright && e.atWork() {
			a.interrupt = a.interrupt || e.Phase == PhaseInterrupt
			a.execution = a.execution || e.Phase != PhaseInterrupt
		}
	}
	return a
}

func (p *pass) markBegun(node types.UID, a activity) {
	have := p.begun[node]
	p.begun[node] = activity{execution: have.execution || a.execution, interrupt: have.interrupt || a.interrupt}
}

// settle is how long a node has to stay Ready before its turn ends.
func (v *view) settle() time.Duration {
	if v.nw.Policy == nil || v.nw.Policy.Settle == nil {
		return 0
	}
	return v.nw.Policy.Settle.Duration
}

func (t *turn) because(code Code, object, message string) {
	t.m.because(&cause{code, object, message})
}

func (t *turn) becauseFailed() {
	f := t.rec.Failure
	if f == nil {
		f = &noderecord.Failure{Reason: string(PackageFailed), Message: "what failed has mended itself; the node waits for its turn"}
	}
	t.because(Code(f.Reason), packageRef(f.Package), FailureSentence(*f))
}

func packageRef(name string) string {
	if name == "" {
		return ""
	}
	return "package " + name
}

// FailureSentence words a failure: package, stage, exit code, and the last lines of the log.
func FailureSentence(f noderecord.Failure) string {
	var parts []string
	if f.Package != "" {
		parts = append(parts, "package "+f.Package)
	}
	if f.Stage != "" {
		parts = append(parts, "stage "+string(f.Stage))
	}
	if f.ExitCode != 0 {
		parts = append(parts, fmt.Sprintf("exit code %d", f.ExitCode))
	}
	out := strings.Join(parts, ", ")
	switch {
	case out == "":
		return f.Message
	case f.Message == "":
		return out
	}
	return out + ": " + f.Message
}

func (t *turn) becauseInterrupting() {
	i := t.rec.Interrupt
	if e, seen := t.execution(t.interruptKey()); seen && !e.Ended() && e.Trouble != "" {
		t.because(e.Trouble, packageRef(i.Packages[0]), "the "+string(i.Type)+" interrupt: "+e.TroubleMessage)
		return
	}
	t.because(Interrupting, packageRef(i.Packages[0]), "the "+string(i.Type)+" interrupt is under way")
}

func (t *turn) becauseRunning() {
	e := t.running
	if len(e) == 0 {
		t.because(Starting, "", "executions are being created")
		return
	}
	slices.SortFunc(e, func(a, b Execution) int { return compareStrings(a.Package, b.Package) })
	first := e[0]
	if first.Trouble != "" {
		t.because(first.Trouble, packageRef(first.Package), "package "+first.Package+": "+first.TroubleMessage)
		return
	}
	stage := string(first.Stage)
	if stage == "" {
		stage = string(first.Phase)
	}
	t.because(Running, packageRef(first.Package), fmt.Sprintf("package %s, stage %s", first.Package, stage))
}

// becauseWaiting: nothing can be started. Something runs, waits for its next attempt, for another NodeWright's work, or
// for a package that it depends on.
func (t *turn) becauseWaiting(left work) {
	switch {
	case t.anyRunning():
		t.becauseRunning()
	case t.backingOff() != "":
		t.becauseBackingOff(t.backingOff())
	case t.p.busyElsewhere(t.m.node, t.v.nw.Name) != activity{}:
		t.because(OtherInterrupt, "", "the work of another NodeWright on this node has to end first")
	default:
		_, waits := left.ready()
		name := slices.Sorted(maps.Keys(waits))
		if len(name) == 0 {
			t.because(Starting, "", "executions are being created")
			return
		}
		t.because(Dependency, packageRef(waits[name[0]]), "package "+name[0]+" waits for package "+waits[name[0]])
	}
}

func (t *turn) becauseBackingOff(name string) {
	pkg := t.rec.Packages[name]
	if s := pkg.Setback; s != nil {
		t.because(Code(s.Reason), packageRef(name), "package "+name+": "+setbackSentence(s, *pkg.NotBefore))
		return
	}
	at := pkg.NotBefore.UTC().Format(time.RFC3339)
	t.because(RetryBackoff, packageRef(name), "package "+name+" failed; the next attempt is due at "+at)
}

func (t *turn) backingOff() string {
	for _, name := range slices.Sorted(maps.Keys(t.rec.Packages)) {
		if at := t.rec.Packages[name].NotBefore; at != nil && t.p.isAhead(*at) {
			return name
		}
	}
	return ""
}

func namesOf(items work) string {
	out := make([]string, 0, len(items))
	for _, it := range items {
		out = append(out, it.name+" ("+string(it.next)+")")
	}
	return strings.Join(out, ", ")
}
