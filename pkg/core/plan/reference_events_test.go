package plan_test

import (
	"fmt"
)

// refContents are what a NodeWright may want: versions, configurations, and nothing.
var refContents = []refContent{{1, 0}, {1, 0}, {2, 0}, {1, 1}, {2, 1}, {0, 0}}

// happen lets an event happen to both. One that cannot happen now does not.
func (p *refPair) happen(e refEvent) error {
	switch e.kind {
	case "join":
		p.join(e)
	case "content":
		p.wantContent(refContents[e.a%len(refContents)])
	case "budget", "rules":
		p.changeRules(e)
	case "retry":
		p.retry++
		p.driver.nw().Retry = fmt.Sprint(p.retry)
	case "resume":
		p.resume++
		p.driver.nw().Resume = fmt.Sprint(p.resume)
	case "ok", "fail":
		return p.endOne(e)
	default:
		if n := p.pick(e.a, func(*refNode) bool { return true }); n != nil {
			p.happenTo(n, e)
		}
	}
	return nil
}

// pick chooses one of the nodes that fit.
func (p *refPair) pick(a int, fits func(*refNode) bool) *refNode {
	var out []*refNode
	for _, n := range p.sorted() {
		if fits(n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out[a%len(out)]
}

func (p *refPair) join(e refEvent) {
	if len(p.nodes) >= 7 {
		return
	}
	p.created++
	p.add(&refNode{name: fmt.Sprintf("n%02d", p.created), zone: p.zoneOf(e)})
}

// zoneOf is where a node goes. Without a policy there is one compartment for all.
func (p *refPair) zoneOf(e refEvent) string {
	if p.rules["default"].kind == "budget" {
		return "b"
	}
	return string("abc"[e.b%3])
}

func (p *refPair) add(n *refNode) {
	n.selected, n.ready, n.retried = true, true, p.retry
	p.nodes[n.name] = n
	p.driver.join(n, p.created)
}

func (p *refPair) wantContent(c refContent) {
	if c == p.content {
		return
	}
	p.content = c
	p.driver.nw().Desired = p.driver.sets[c]
	p.driver.nw().Generation++
}

// changeRules edits a policy: its budget, or the thresholds of a strategy. What `advance` says stays.
func (p *refPair) changeRules(e refEvent) {
	c := refCompartments[e.a%2]
	r := p.rules[c]
	switch {
	case r.kind == "budget" && r.percent >= 0:
		r.percent = []int{0, 20, 50, 100}[e.b%4]
	case e.kind == "budget" && r.count >= 0:
		r.count = 1 + e.b%4
	case e.kind == "budget":
		r.percent = []int{10, 34, 50, 100}[e.b%4]
	case r.rolling || r.kind == "none":
		return
	default:
		r.threshold, r.limit, r.max = []int{100, 50}[e.b%2], []int{50, 100}[e.b/2%2], e.b/4%3
		r.initial = 1 + e.b/12%3
	}
	p.rules[c] = r
	p.driver.policy(p.reference)
}

// endOne ends what runs on one node.
func (p *refPair) endOne(e refEvent) error {
	n := p.pick(e.a, func(n *refNode) bool { return n.running != "" })
	if n == nil {
		return nil
	}
	if err := p.driver.ran(n.name, e.kind == "ok"); err != nil {
		return err
	}
	p.ran(n, e.kind == "ok")
	return nil
}

// happenTo is what happens to one node.
func (p *refPair) happenTo(n *refNode, e refEvent) {
	d := p.driver.node(n.name)
	switch e.kind {
	case "leave":
		p.leave(n)
	case "recreate":
		p.leave(n)
		p.created++
		p.add(&refNode{name: n.name, zone: n.zone})
	case "zone":
		n.zone = p.zoneOf(e)
	case "select":
		n.selected = !n.selected
	case "ready":
		n.ready = !n.ready
		d.Ready = n.ready
	case "foreign":
		if !p.interrupt {
			n.foreign = !n.foreign
			d.Unschedulable = n.foreign
		}
	case "guard":
		if n.guard || !n.cordoned { // nothing is scheduled to a node that is cordoned
			n.guard = !n.guard
			p.driver.guarded(n.name, n.guard)
		}
	}
	if e.kind == "zone" || e.kind == "select" {
		d.Labels = map[string]string{"pool": map[bool]string{true: "gpu", false: "cpu"}[n.selected], "zone": n.zone}
	}
}

// leave takes a node away. Its jobs that did not succeed are remembered.
func (p *refPair) leave(n *refNode) {
	p.ghosts = append(p.ghosts, n.lost()...)
	delete(p.nodes, n.name)
	p.driver.leave(n.name)
}
