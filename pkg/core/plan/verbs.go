package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/verb"
)

// People ask for things with annotations (package verb). What is asked of a node is taken over with its next admission, so
// that budgets, halts, windows and protected pods hold as for any other work, and the record that says so names the token,
// so that it happens once. Until then the record tells what is on the host.
//
// `rerun` and `reset` make a complete node incomplete. The agent repeats no stage of a round, so a node that ended its turn
// in this round waits for the next one; it begins when nothing of this one is under way. `reset` of a whole NodeWright begins
// a round at once, and so ends halts. `retry` lets a failed node be admitted again in its round. `regate` is a reset of a node
// behind the runtime-required taint, which comes first (see gateNodes).

// asked is what is asked of a node under a NodeWright and not taken over yet.
type asked struct {
	// retry: a failed turn may be tried again.
	retry bool
	// again are the requests for packages that are to run again.
	again []verb.Request
	// regate: the runtime-required taint has to be there before anything runs.
	regate bool
	// rebooted: everything has to run again, as nothing that is recorded holds for the present boot; see reboot.go.
	rebooted bool
	// drifted are the packages that run again because their host does not match them any more; see verify.go.
	drifted []string
	// tokens to note with the next admission, by the key in the record.
	tokens map[string]string
}

// askedOfNodes are the verbs whose tokens a record notes.
var askedOfNodes = []string{fleetv1.VerbRetry, fleetv1.VerbRerun, fleetv1.VerbReset, fleetv1.VerbRegate}

// onNode is the key, in a record, of a request that stands on the node itself.
const onNode = "node/"

// standingRequest is a request of a NodeWright with the key of its token in the records.
type standingRequest struct {
	verb.Request
	key string
}

// readRequests reads what is asked on the NodeWright. What is malformed asks for nothing.
func (v *view) readRequests() {
	for name, value := range map[string]string{
		fleetv1.VerbRetry: v.nw.Retry, fleetv1.VerbRerun: v.nw.Rerun, fleetv1.VerbReset: v.nw.Reset, fleetv1.VerbResume: v.nw.Resume,
	} {
		if value == "" {
			continue
		}
		r, err := verb.Parse(verb.OnNodeWright, name, value)
		if err == nil {
			err = checkRequest(r, v.nw)
		}
		switch {
		case err != nil:
			v.refused = append(v.refused, RequestStatus{Verb: name, Token: value, Problem: fleetv1.VerbKey(name) + ": " + err.Error()})
		case name == fleetv1.VerbResume:
			v.resumeToken = r.Token
		default:
			v.requests = append(v.requests, standingRequest{r, name})
		}
	}
	slices.SortFunc(v.requests, func(a, b standingRequest) int { return compareStrings(a.key, b.key) })
	slices.SortFunc(v.refused, func(a, b RequestStatus) int { return compareStrings(a.Verb, b.Verb) })
}

// checkRequest refuses names and stages that the NodeWright does not have, and says which it has.
func checkRequest(r verb.Request, nw *NodeWright) error {
	if r.Verb == fleetv1.VerbRegate && !nw.Spec.RuntimeRequired {
		return fmt.Errorf("NodeWright %s is not runtimeRequired: it waits behind no taint", nw.Name)
	}
	if nw.Problem != "" {
		return nil // what it has is not known
	}
	names, interrupts := make([]string, 0, len(nw.Desired.Packages)), 0
	for _, def := range nw.Desired.Packages {
		names = append(names, def.Name)
		if def.Interrupt != nil && r.ForPackage(def.Name) {
			interrupts++
		}
	}
	for _, name := range r.Packages {
		if !slices.Contains(names, name) {
			return fmt.Errorf("NodeWright %s has no package %q; it has %s", nw.Name, name, strings.Join(names, ", "))
		}
	}
	if s := r.From(); r.Verb == fleetv1.VerbRerun && (s == nwv1.StageInterrupt || s == nwv1.StagePostInterrupt) && interrupts == 0 {
		return fmt.Errorf("stage %s: no package that is named has an interrupt; the others run from apply or config", s)
	}
	return nil
}

// readNodeRequests reads what is asked on the node for this NodeWright.
func (v *view) readNodeRequests(n *Node) []standingRequest {
	var out []standingRequest
	for _, name := range askedOfNodes {
		r, err := verb.Parse(verb.OnNode, name, n.Requests[name])
		if err == nil && r.ForNodeWright(v.nw.Name) && checkRequest(r, v.nw) == nil {
			out = append(out, standingRequest{r, onNode + name})
		}
	}
	return out
}

// askedOf is what is asked of a node and not taken over yet; nil: nothing.
func (v *view) askedOf(n *Node, rec noderecord.Record) *asked {
	if len(v.requests) == 0 && len(n.Requests) == 0 {
		return nil
	}
	all := v.requests
	if len(n.Requests) > 0 {
		all = slices.Concat(all, v.readNodeRequests(n))
	}
	var a *asked
	for _, r := range all {
		if rec.TokenOf(r.key) == r.Token {
			continue
		}
		if a == nil {
			a = &asked{tokens: map[string]string{}}
		}
		a.tokens[r.key] = r.Token
		if !r.ForNode(n.Name) {
			continue
		}
		if r.Verb == fleetv1.VerbRetry {
			a.retry = a.retry || rec.Failure == nil || len(r.Packages) == 0 || slices.Contains(r.Packages, rec.Failure.Package)
			continue
		}
		a.again, a.regate = append(a.again, r.Request), a.regate || r.Verb == fleetv1.VerbRegate
	}
	return a
}

// apply returns the record with the packages that have to run again, and how many these are. Nothing else of it changes.
func (a *asked) apply(rec noderecord.Record, set *desired.Set) (noderecord.Record, int) {
	if a == nil || len(a.again)+len(a.drifted) == 0 && !a.rebooted {
		return rec, 0
	}
	packages, n := maps.Clone(rec.Packages), 0
	for name, have := range rec.Packages {
		def, wanted := set.ByName(name)
		wanted = wanted && !def.Absent
		touched := a.rebooted && runAgain(&have, verb.Request{Verb: fleetv1.VerbReset}, def, wanted) ||
			slices.Contains(a.drifted, name) && runAgain(&have, rerun, def, wanted)
		for _, r := range a.again {
			if r.ForPackage(name) && runAgain(&have, r, def, wanted) {
				touched = true
			}
		}
		if touched {
			packages[name] = have
			n++
		}
	}
	if n > 0 {
		rec.Packages, rec.Shared = packages, 0
	}
	return rec, n
}

// rerun is the request to run a package again from its first stage.
var rerun = verb.Request{Verb: fleetv1.VerbRerun}

// runAgain makes a package incomplete from a stage on. A reset forgets it, except that the step flags of its versions have to
// be cleared. What is not wanted any more does not run again, and what has to be uninstalled is not forgotten.
func runAgain(have *noderecord.Package, r verb.Request, def desired.Package, wanted bool) bool {
	switch {
	case !wanted:
		return false
	case r.Verb == fleetv1.VerbReset, r.Verb == fleetv1.VerbRegate:
		*have = noderecord.Package{Fresh: true, Attempt: have.Attempt}
		return true
	case have.Version == "":
		return false
	}
	switch s := r.From(); s {
	case nwv1.StageApply:
		have.Attempted, have.Applied, have.Configured = "", "", ""
	case nwv1.StageConfig:
		have.Configured, have.DueInstall = "", def.Interrupt != nil
	default:
		if def.Interrupt == nil {
			return false
		}
		have.DueInstall, have.Post = have.DueInstall || s == nwv1.StageInterrupt, true
	}
	return true
}

// ask meets a node's record with what is asked of it. A node under way goes on first.
func (p *pass) ask(v *view, m *member) {
	m.asked, m.boot = v.askedOf(m.node, m.rec), v.bootOf(m)
	m.askAfterReboot()
	v.askForDrift(m)
	if m.asked == nil || m.rec.IsOpen() || !m.selected {
		return
	}
	if again, n := m.asked.apply(m.rec, &v.nw.Desired); n > 0 {
		m.again = &again
		v.asksAgain = true
	} else if m.asked.rebooted {
		m.asked.rebooted, m.boot = false, bootUnnoted // nothing that is wanted was lost
	}
}

// takeOver writes what was asked into the record of a turn that begins.
func (t *turn) takeOver() {
	if t.m.asked == nil {
		return
	}
	rec, n := t.m.asked.apply(t.rec, &t.v.nw.Desired)
	if n > 0 {
		t.ownPackages()
		maps.Copy(t.rec.Packages, rec.Packages)
		t.d.Asked = t.m.asked.sentence()
		if len(t.m.asked.again) > 0 {
			t.rec.Reruns++
		}
	}
	t.rec.Asked = t.m.asked.noted(t.rec.Asked, "")
}

// noteRetries notes the retries that stand now: who asked for them did not mean a failure that was still to come.
func (t *turn) noteRetries() {
	if t.rec.Retried = t.v.retryToken(); t.m.asked != nil {
		t.rec.Asked = t.m.asked.noted(t.rec.Asked, onNode+fleetv1.VerbRetry)
	}
}

// noted is a copy of what a record says was handled, with the tokens whose key begins so; a record's own maps are shared.
func (a *asked) noted(have map[string]string, prefix string) map[string]string {
	out := maps.Clone(have)
	for key, token := range a.tokens {
		if key == fleetv1.VerbRetry || !strings.HasPrefix(key, prefix) {
			continue // the NodeWright's retry has a field of its own
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = token
	}
	return out
}

func (v *view) retryToken() string { return v.token(fleetv1.VerbRetry) }

func (v *view) token(name string) string {
	for _, r := range v.requests {
		if r.key == name {
			return r.Token
		}
	}
	return ""
}

// sentence words what runs again, for the event.
func (a *asked) sentence() string {
	parts := make([]string, 0, len(a.again)+1)
	if a.rebooted {
		parts = append(parts, "the node was rebooted, and not by us: every package runs again")
	}
	for _, r := range a.again {
		what := "every package"
		if len(r.Packages) > 0 {
			what = "package " + strings.Join(r.Packages, ", ")
		}
		parts = append(parts, fmt.Sprintf("%s %s: %s runs again from stage %s", r.Verb, r.Token, what, r.From()))
	}
	if len(a.drifted) > 0 {
		parts = append(parts, "the host does not match package "+strings.Join(a.drifted, ", ")+" any more (onDrift: Reapply): it runs again")
	}
	return strings.Join(parts, "; ")
}

// resetsRollout reports whether the whole rollout is asked to begin anew.
func (v *view) resetsRollout() bool {
	i := slices.IndexFunc(v.requests, func(r standingRequest) bool { return r.key == fleetv1.VerbReset })
	return i >= 0 && len(v.requests[i].Nodes) == 0 && v.requests[i].Token != v.ledger.Reset
}

// onlyAsked reports whether all nodes that are not complete are so because they are asked to run again.
func (v *view) onlyAsked() bool {
	return v.asksAgain && !slices.ContainsFunc(v.busy, func(m *member) bool { return m.targeted && m.again == nil && !m.complete() })
}

// nextForAsked reports whether a round has to begin for nodes that ended in this one and are asked to run again. It begins
// when this one is at rest: nothing is under way or could begin, every verdict is taken, and none of them halted it.
func (p *pass) nextForAsked(v *view) bool {
	if !v.asksAgain || !slices.ContainsFunc(v.busy, func(m *member) bool { return m.targeted && v.waitsForRound(m) }) {
		return false
	}
	for _, intent := range v.ledger.Intents {
		pos, exists := p.positionOf(intent.NodeUID)
		if exists && !p.nodes[pos].Records[v.nw.Name].Reached(intent.Round, intent.Order) {
			return false
		}
	}
	for _, c := range v.compartments {
		led := v.ledger.Compartments[c.name]
		if led.Halt != nil || led.Batch > 0 && !led.Settled && !c.rules.rolling {
			return false
		}
	}
	return !slices.ContainsFunc(v.busy, v.goesBefore)
}

// goesBefore: the node is under way in this round, or could be admitted to it.
func (v *view) goesBefore(m *member) bool {
	switch {
	case m.rec.IsOpen():
		return true
	case !m.targeted || m.again != nil || m.complete() || !m.node.Ready || m.malformed() != "":
		return false
	case v.current(m.rec) && m.rec.Outcome == noderecord.Failed:
		return m.mayRetry()
	}
	return true
}

// requests are those for packages that are to run again.
func (a *asked) requests() []verb.Request {
	if a == nil {
		return nil
	}
	return a.again
}

// mayRetry: a node that failed in this round may be admitted to it again.
func (m *member) mayRetry() bool { return m.rec.Healed || m.asked != nil && m.asked.retry }

// waitsForRound: the node is asked to run again and had a turn in this round already.
func (v *view) waitsForRound(m *member) bool {
	if m.rec.Outcome == noderecord.Failed && len(m.asked.requests()) == 0 && !m.mayRetry() {
		return false // a reboot alone asks for nothing of a node that failed
	}
	return m.again != nil && v.current(m.rec) && m.rec.Batch > 0
}

func (v *view) becauseOfRound(m *member) *cause {
	if halt := m.halt(v); halt != nil {
		return &cause{Halted, m.compartment.ref(), "compartment " + m.compartment.name + " is halted: " + halt.Message}
	}
	why := "the node is asked to run again"
	switch {
	case len(m.asked.again) > 0:
	case m.asked.rebooted:
		why = "the node was rebooted"
	default:
		why = "the host does not match package " + strings.Join(m.asked.drifted, ", ") + " any more"
	}
	return &cause{WaitingForRound, "", fmt.Sprintf("%s and has ended in round %d; it is admitted to the next round, "+
		"which begins when nothing of this one is under way", why, v.ledger.Round)}
}

// resetUnreadable replaces records that cannot be read where a reset is asked for: by one that says that nothing is known.
func (p *pass) resetUnreadable() {
	for _, v := range p.views {
		if v.held != nil {
			continue
		}
		for _, m := range v.busy {
			if m.malformed() != "" && m.targeted && m.decision == nil && m.asked.resets() {
				p.replaceRecord(v, m)
			}
		}
	}
}

func (a *asked) resets() bool {
	return slices.ContainsFunc(a.requests(), func(r verb.Request) bool {
		return r.Verb == fleetv1.VerbReset || r.Verb == fleetv1.VerbRegate
	})
}

func (p *pass) replaceRecord(v *view, m *member) {
	now := p.in.Now
	rec := noderecord.Record{ // failed and healed: it waits for its turn, and keeps a cordon of ours until then
		NodeWright: v.nw.UID, Node: m.node.UID, Round: v.ledger.Round - 1, Outcome: noderecord.Failed, Healed: true, EndedAt: &now,
		Retried: v.retryToken(), Asked: m.asked.noted(nil, ""), Reruns: 1,
	}
	rec.Packages = make(map[string]noderecord.Package, len(v.nw.Desired.Packages))
	for _, def := range v.nw.Desired.Packages {
		rec.Packages[def.Name] = noderecord.Package{Fresh: true}
	}
	d := Decision{
		Node: m.node.Name, NodeUID: m.node.UID, Action: ActionReset, Record: &rec, Status: statusOf(m.code()),
		Asked: m.asked.sentence(),
	}
	if seen, had := m.node.Records[v.nw.Name]; had {
		d.Before = &seen
	}
	if m.asked.regate && len(p.runtimeTaints(m.node)) == 0 {
		d.Taint = &p.in.Settings.RuntimeRequiredTaint
	}
	m.decide(d)
}

// requestStatuses is how far the NodeWright's requests are.
func (v *view) requestStatuses() []RequestStatus {
	out := slices.Clone(v.refused)
	for _, r := range v.requests {
		s := RequestStatus{Verb: r.Verb, Token: r.Token}
		for _, m := range v.busy {
			if m.targeted && r.ForNode(m.node.Name) && v.stillAsked(m, r) {
				if s.Pending++; len(s.Nodes) < firstNames {
					s.Nodes = append(s.Nodes, m.node.Name)
				}
			}
		}
		out = append(out, s)
	}
	return out
}

// stillAsked reports whether a request still has to be met on a node.
func (v *view) stillAsked(m *member, r standingRequest) bool {
	if m.rec.TokenOf(r.key) == r.Token || m.asked == nil {
		return false
	}
	if r.Verb == fleetv1.VerbRetry {
		return m.asked.retry && m.rec.Outcome == noderecord.Failed && v.current(m.rec)
	}
	only := &asked{again: []verb.Request{r.Request}}
	_, n := only.apply(m.rec, &v.nw.Desired)
	return n > 0
}

// refusedOn are the requests on nodes that no NodeWright can meet, each once.
func (p *pass) refusedOn(n *Node) []RefusedRequest {
	var out []RefusedRequest
	for _, name := range askedOfNodes {
		value, there := n.Requests[name]
		if !there {
			continue
		}
		r, err := verb.Parse(verb.OnNode, name, value)
		if err == nil {
			err = p.nobodyMeets(n, r)
		}
		if err != nil {
			out = append(out, RefusedRequest{Node: n.Name, NodeUID: n.UID, Value: value, Message: fleetv1.VerbKey(name) + ": " + err.Error()})
		}
	}
	return out
}

// nobodyMeets says why no NodeWright of the node can meet a request; nil: one can.
func (p *pass) nobodyMeets(n *Node, r verb.Request) error {
	err := errors.New("no NodeWright selects the node")
	for _, v := range p.views {
		if !selects(v.selector, n) || !selects(v.nw.Scope, n) {
			continue
		}
		if !r.ForNodeWright(v.nw.Name) {
			err = fmt.Errorf("NodeWright %s is not among those that select the node", strings.Join(r.NodeWrights, ", "))
			continue
		}
		if err = checkRequest(r, v.nw); err == nil {
			return nil
		}
	}
	return err
}
