package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// TestPropertiesOfRandomHistories: whatever happens to a fleet, the invariants that the world watches hold at every step;
// equal inputs give equal plans; and when the noise stops, everything is complete.
func TestPropertiesOfRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newHistory(t).run() })
}

// history is a world to which random things happen.
type history struct {
	*world
	rt      *rapid.T
	created int
	// losing is for how many passes writes to one node get lost.
	losing int
	// broken are the nodes on which every stage fails.
	broken map[string]bool
	// foreign are the nodes that somebody else cordoned while none of us had.
	foreign map[string]bool
	// seen are the inputs of the last passes.
	seen []plan.Input
	// ceiling by NodeWright and compartment, as the policies say now.
	budgets map[string]map[string]nwv1.DeploymentBudget
	// look is how the pods of the cluster are looked at, and then what was seen when that was last done.
	look looking
	then map[string]plan.Occupancy
}

func newHistory(t *rapid.T) *history {
	h := &history{rt: t, broken: map[string]bool{}, foreign: map[string]bool{}, budgets: map[string]map[string]nwv1.DeploymentBudget{}}
	h.world = newWorld(t, 0)
	h.pods = map[string][]*corev1.Pod{}
	for range rapid.IntRange(1, 7).Draw(t, "nodes") {
		h.join()
	}
	h.fails = func(node, _ string, _ nwv1.Stage) int32 {
		if h.broken[node] {
			return 3
		}
		return 0
	}
	h.compartmentOf = func(nodeWright string, n *plan.Node) string {
		if !h.targets(nodeWright, n) {
			return "" // it holds the slot that it was admitted to, and no other
		}
		if n.Labels["zone"] == "a" {
			return "zone-a"
		}
		return nwv1.DefaultCompartment
	}
	h.ceilings, h.occupancyOf = h.ceilingNow, h.occupancyNow
	h.edit("first")
	if rapid.Bool().Draw(t, "two") {
		h.edit("second")
	}
	if rapid.Bool().Draw(t, "cluster budget") {
		h.in.Budgets = []plan.Budget{{Name: "ns/f", Count: new(int32(rapid.IntRange(1, 3).Draw(t, "nodes out of service")))}}
	}
	return h
}

func (h *history) run() {
	actions := map[string]func(){
		"join": h.join, "leave": h.leave, "recreate": h.recreate, "break": h.breakNode, "mend": h.mendNode,
		"reboot": h.spontaneousReboot, "cordon": h.cordonByHand, "uncordon": h.uncordonByHand, "move": h.moveLabels,
		"edit-first": func() { h.edit("first") }, "edit-second": func() { h.edit("second") }, "pod": h.schedulePod,
		"pull": h.troublePull, "pulled": h.mendPull, "pause": h.pause, "stale": h.stalePass, "notReady": h.notReady,
		"lost": h.loseWrites, "delete-second": h.deleteSecond, "crash": h.crash, "unresolved": h.unresolved, "standby": h.standby,
		"policy-first": func() { h.editPolicy("first") }, "taint": h.taint, "wait": h.wait, "bound": h.bind, "occupancy": h.lookAway,
		"nothing": func() {}, "nothing-more": func() {},
	}
	for range rapid.IntRange(5, 60).Draw(h.rt, "steps") {
		name := rapid.SampledFrom(sortedKeys(actions)).Draw(h.rt, "action")
		h.logf("· %s", name)
		actions[name]()
		h.step()
	}
	h.quiet()
}

func (h *history) step() {
	in := h.input()
	h.seen = append(h.seen, in)
	h.checkDeterminism(in)
	out := h.pass()
	h.checkConserved(out)
	h.checkWhatIsHeldBack(out)
	h.checkClusterBudget(in)
	h.checkPlacement(in, out)
	h.checkLedger(in.Ledger)
	if h.losing--; h.losing <= 0 {
		h.lost = nil
	}
	for name := range h.foreign {
		if n := h.nodes[name]; n != nil {
			require.True(h.rt, n.Unschedulable, "the foreign cordon of %s was taken away", name)
		}
	}
	h.work()
}

// checkDeterminism: the order of the input does not matter.
func (h *history) checkDeterminism(in plan.Input) {
	if h.passes%5 != 0 {
		return
	}
	in.Occupancies = map[string]plan.Occupancy{"first": {Protected: map[string]string{"n01": "ml/train", "n03": "ml/train"}, Bound: h.bound}}
	want, err := json.Marshal(plan.Compute(in))
	require.NoError(h.rt, err)
	rng := rand.New(rand.NewSource(int64(h.passes)))
	other := in
	other.Nodes, other.NodeWrights = slices.Clone(in.Nodes), slices.Clone(in.NodeWrights)
	rng.Shuffle(len(other.Nodes), func(i, j int) { other.Nodes[i], other.Nodes[j] = other.Nodes[j], other.Nodes[i] })
	rng.Shuffle(len(other.NodeWrights), func(i, j int) {
		other.NodeWrights[i], other.NodeWrights[j] = other.NodeWrights[j], other.NodeWrights[i]
	})
	for i := range other.Nodes {
		e := slices.Clone(other.Nodes[i].Executions)
		rng.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
		other.Nodes[i].Executions = e
	}
	other.Orphans = slices.Clone(in.Orphans)
	rng.Shuffle(len(other.Orphans), func(i, j int) { other.Orphans[i], other.Orphans[j] = other.Orphans[j], other.Orphans[i] })
	got, err := json.Marshal(plan.Compute(other))
	require.NoError(h.rt, err)
	require.Equal(h.rt, string(want), string(got), "the order of the input changed the plan")
}

// quiet ends the noise: everything is mended, failed nodes are tried again and halts end. Then all must be complete.
func (h *history) quiet() {
	h.lost, h.in.Standby = nil, ""
	for i := range h.in.NodeWrights {
		h.in.NodeWrights[i].Problem, h.in.NodeWrights[i].OutOfScope = "", ""
	}
	h.broken, h.foreign = map[string]bool{}, map[string]bool{}
	for _, n := range h.nodes {
		n.Ready, n.Unschedulable = true, len(n.CordonOwners) > 0
		delete(n.Labels, nwv1.IgnoreLabel)
		if len(n.CordonOwners) > 0 { // as it failed: it is not tried again where it is kept out
			n.Taints = []corev1.Taint{theirs}
		}
	}
	h.mendPull()
	h.pods, h.bound, h.look = map[string][]*corev1.Pod{}, nil, fresh
	// Two NodeWrights can wait for each other through a Fleet's budget: the second holds its room on nodes that wait for the
	// first, which is under way elsewhere and now needs room too. Only people end that.
	h.in.Budgets = nil
	h.settleWithResumes()
	for _, s := range h.last.Statuses {
		require.Equal(h.rt, nwv1.StatusComplete, s.Status, "%s does not converge: %+v\n%v", s.NodeWright, s.Reasons, h.log)
	}
	for _, n := range h.nodes {
		require.Empty(h.rt, n.CordonOwners, "a cordon is left on %s", n.Name)
		require.False(h.rt, n.Unschedulable, "%s is left cordoned", n.Name)
		h.checkTaints(n)
	}
}

// settleWithResumes answers each halt and each failure that was under way, which are states of rest, with another token.
func (h *history) settleWithResumes() {
	for attempt := range 10 {
		for i := range h.in.NodeWrights {
			nw := &h.in.NodeWrights[i]
			nw.Paused, nw.Retry, nw.Resume = false, fmt.Sprint(attempt), fmt.Sprint(attempt)
		}
		h.passes = 0
		h.settle()
		if !slices.ContainsFunc(h.last.Statuses, func(s plan.Status) bool { return len(s.Halted) > 0 || s.Failed > 0 }) {
			return
		}
	}
}

func (h *history) anyNode(label string) *plan.Node {
	if len(h.nodes) == 0 {
		return nil
	}
	return h.nodes[rapid.SampledFrom(sortedKeys(h.nodes)).Draw(h.rt, label)]
}

func (h *history) join() {
	if len(h.nodes) >= 8 {
		return
	}
	h.created++
	name := fmt.Sprintf("n%02d", h.created)
	n := h.addNode(name, map[string]string{"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(h.rt, "zone"), "rack": h.drawRack()})
	n.UID, n.Taints = types.UID(fmt.Sprintf("uid-%s-%d", name, h.created)), h.drawTaints()
}

// loseWrites refuses what is written for a node, for some passes.
func (h *history) loseWrites() {
	n := h.anyNode("refuses")
	if n == nil {
		return
	}
	name := n.Name
	h.losing = rapid.IntRange(1, 6).Draw(h.rt, "passes")
	h.lost = func(d plan.Decision) bool { return d.Node == name }
}

func (h *history) leave() {
	if n := h.anyNode("leaves"); n != nil {
		h.removeNode(n.Name)
		delete(h.pods, n.Name)
		delete(h.foreign, n.Name)
	}
}

func (h *history) recreate() {
	if n := h.anyNode("re-created"); n != nil {
		h.created++
		delete(h.pods, n.Name)
		delete(h.foreign, n.Name)
		anew := h.addNode(n.Name, n.Labels)
		anew.UID, anew.Taints = types.UID(fmt.Sprintf("uid-%s-%d", n.Name, h.created)), h.drawTaints()
	}
}

func (h *history) breakNode() {
	if n := h.anyNode("breaks"); n != nil {
		h.broken[n.Name] = true
	}
}

func (h *history) mendNode() {
	if n := h.anyNode("mended"); n != nil {
		delete(h.broken, n.Name)
		n.Ready = true
	}
}

func (h *history) notReady() {
	if n := h.anyNode("not ready"); n != nil {
		n.Ready = false
	}
}

// spontaneousReboot takes the node's executions down with it.
func (h *history) spontaneousReboot() {
	n := h.anyNode("reboots")
	if n == nil {
		return
	}
	n.BootID += "*"
	for _, name := range sortedKeys(h.jobs) {
		if j := h.jobs[name]; j.NodeUID == n.UID && j.State == plan.ExecutionRunning && j.Trouble == "" {
			j.State, j.Disrupted, j.ExitCode, j.Finished = plan.ExecutionFailed, true, 137, h.in.Now
		}
	}
}

func (h *history) cordonByHand() {
	if n := h.anyNode("cordoned by hand"); n != nil && len(n.CordonOwners) == 0 && !n.Unschedulable {
		n.Unschedulable = true
		h.foreign[n.Name] = true
	}
}

func (h *history) uncordonByHand() {
	if n := h.anyNode("uncordoned by hand"); n != nil {
		n.Unschedulable = false
		delete(h.foreign, n.Name)
	}
}

func (h *history) moveLabels() {
	if n := h.anyNode("moves"); n != nil {
		labels := map[string]string{
			"pool": rapid.SampledFrom([]string{"gpu", "gpu", "cpu"}).Draw(h.rt, "pool"),
			"zone": rapid.SampledFrom([]string{"a", "b"}).Draw(h.rt, "zone"),
			"rack": h.drawRack(),
		}
		if rapid.IntRange(0, 5).Draw(h.rt, "ignored") == 0 {
			labels[nwv1.IgnoreLabel] = nwv1.TrueValue
		}
		n.Labels = labels
	}
}

// schedulePod puts a pod on a node if the scheduler would; sometimes a protected one, which ends by itself.
func (h *history) schedulePod() {
	n := h.anyNode("pod")
	if n == nil {
		return
	}
	if len(h.pods[n.Name]) > 0 {
		h.pods[n.Name] = nil
		return
	}
	if !n.Unschedulable && !gated(n) {
		h.addPod(n.Name, "jobs", fmt.Sprintf("p%d", h.passes), map[string]string{
			"protected": rapid.SampledFrom([]string{"true", "false"}).Draw(h.rt, "protected"),
		})
	}
}

func (h *history) troublePull() {
	for _, name := range sortedKeys(h.jobs) {
		if j := h.jobs[name]; j.State == plan.ExecutionPending && j.Trouble == "" && j.Phase != plan.PhaseInterrupt {
			j.Trouble, j.TroubleMessage, j.TroubleSince = plan.ImagePull, "no such image", h.in.Now.Add(-time.Hour)
			return
		}
	}
}

func (h *history) mendPull() {
	for _, name := range sortedKeys(h.jobs) {
		j := h.jobs[name]
		if j.Trouble == "" {
			continue
		}
		for _, other := range h.jobs { // the agent's lock holds it back until nothing else runs there
			if other.NodeUID == j.NodeUID && other != j && !other.Ended() {
				return
			}
		}
		j.Trouble = ""
	}
}

func (h *history) pause() {
	nw := &h.in.NodeWrights[rapid.IntRange(0, len(h.in.NodeWrights)-1).Draw(h.rt, "paused")]
	nw.Paused = !nw.Paused
}

func (h *history) deleteSecond() {
	h.in.NodeWrights = slices.DeleteFunc(h.in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == "second" })
	delete(h.budgets, "second")
}

// stalePass is another leader that acts on what was true some passes ago: its ledger write is refused, and what needs
// none is done where the tests hold.
func (h *history) stalePass() {
	if len(h.seen) == 0 {
		return
	}
	back := rapid.IntRange(1, min(4, len(h.seen))).Draw(h.rt, "back")
	in := h.seen[len(h.seen)-back]
	out := plan.Compute(in)
	if out.Ledger != nil || len(out.NeedPods) > 0 {
		return
	}
	h.stale = true
	for _, d := range out.Decisions {
		if d.Record != nil { // without one there is nothing that the API server would test
			h.do(d)
		}
	}
	h.stale = false
}

// edit writes a NodeWright anew: packages, policy, protected pods.
func (h *history) edit(name string) {
	a := h.drawPackage("alpha")
	packages := []desired.Package{a}
	if rapid.Bool().Draw(h.rt, "beta too") {
		b := h.drawPackage("beta")
		if rapid.Bool().Draw(h.rt, "dependent") {
			b.DependsOn = map[string]string{"alpha": a.Version}
		}
		packages = append(packages, b)
	}
	h.nodeWright(name, func(nw *plan.NodeWright) {
		if nw.Generation == 1 {
			h.created++
			nw.UID = types.UID(fmt.Sprintf("uid-%s-%d", name, h.created))
		}
		h.drawPolicy(nw)
	}, packages...)
}

// editPolicy writes another policy, and nothing that would start a round.
func (h *history) editPolicy(name string) {
	h.world.edit(name, func(nw *plan.NodeWright) {
		nw.Generation++
		h.drawPolicy(nw)
	})
}

func (h *history) drawPolicy(nw *plan.NodeWright) {
	zoneA, rest := h.drawDefault("zone-a"), h.drawDefault("default")
	h.budgets[nw.Name] = map[string]nwv1.DeploymentBudget{"zone-a": zoneA.Budget, nwv1.DefaultCompartment: rest.Budget}
	nw.Spec.Serial = rapid.Bool().Draw(h.rt, "serial")
	nw.Spec.PodNonInterruptLabels = metav1.LabelSelector{MatchLabels: map[string]string{"protected": "true"}}
	nw.Policy = &nwv1.DeploymentPolicySpec{Default: rest, Compartments: []nwv1.Compartment{{
		Name: "zone-a", Selector: metav1.LabelSelector{MatchLabels: map[string]string{"zone": "a"}},
		Budget: zoneA.Budget, Strategy: zoneA.Strategy,
	}}}
	h.drawPlacement(nw)
}

func (h *history) drawPackage(name string) desired.Package {
	p := pkg(name, rapid.SampledFrom([]string{"1.0.0", "1.1.0", "2.0.0"}).Draw(h.rt, "version"))
	p.ConfigMap = map[string]string{"conf": rapid.SampledFrom([]string{"x", "y"}).Draw(h.rt, "conf")}
	p.UninstallOnRemoval = rapid.Bool().Draw(h.rt, "uninstall")
	if name == "beta" && p.UninstallOnRemoval { // alpha may be depended on
		p.Absent = rapid.Bool().Draw(h.rt, "absent")
	}
	switch rapid.IntRange(0, 3).Draw(h.rt, "interrupt") {
	case 0:
		return reboot(p)
	case 1:
		return service(p, name)
	case 2:
		p.ConfigInterrupts = map[string]nwv1.Interrupt{"conf": {Type: nwv1.InterruptService, Services: []string{"conf"}}}
	}
	return p
}

func (h *history) drawDefault(label string) nwv1.PolicyDefault {
	n := int32(rapid.IntRange(1, 4).Draw(h.rt, label+" budget"))
	out := nwv1.PolicyDefault{Budget: count(n)}
	if rapid.Bool().Draw(h.rt, label+" percent") {
		out.Budget = percent(n * 25)
	}
	out.Budget.CountUnavailable = rapid.IntRange(0, 3).Draw(h.rt, label+" unavailable") == 0
	initial := int32(rapid.IntRange(1, 3).Draw(h.rt, label+" initial"))
	var more []func(*nwv1.BatchRules)
	if rapid.Bool().Draw(h.rt, label+" halts") {
		more = append(more, failureThreshold(1))
	}
	var s nwv1.DeploymentStrategy
	switch rapid.IntRange(0, 4).Draw(h.rt, label+" strategy") {
	case 0:
		s = fixed(initial, more...)
	case 1:
		s = fixed(initial, more...)
		s.Fixed.Advance = nwv1.AdvanceRolling
	case 2:
		s = linear(initial, 1, more...)
	case 3:
		s = exponential(initial, 2, more...)
	default:
		return out
	}
	out.Strategy = &s
	return out
}

// ceilingNow counts the nodes of a compartment and does the percentage its own way.
func (h *history) ceilingNow(nodeWright, compartment string) (int, bool) {
	b, ok := h.budgets[nodeWright][compartment]
	if !ok {
		return 0, false
	}
	if b.Count != nil {
		return int(*b.Count), true
	}
	matched := 0
	for _, n := range h.nodes {
		if h.targets(nodeWright, n) && h.compartmentOf(nodeWright, n) == compartment {
			matched++
		}
	}
	if matched == 0 {
		return 0, true
	}
	for c := matched; c > 1; c-- {
		if 100*c <= matched*int(*b.Percent) {
			return c, true
		}
	}
	return 1, true
}
