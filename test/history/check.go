package history

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// Rules are what a scenario promises.
type Rules struct {
	// Ceilings by NodeWright: how many nodes may be at work or held at once.
	Ceilings map[string]int
	// Budget is how many nodes may be held over all NodeWrights; 0: no limit.
	Budget int
	// Namespace of the executions.
	Namespace string
	// Protected pods by NodeWright.
	Protected map[string]labels.Selector
	// ForeignPrefix starts the keys of labels, annotations and taints that are nobody's business.
	ForeignPrefix string
	// ForeignCordons are nodes that somebody else cordoned before the history began.
	ForeignCordons map[string]bool
	// Secret must be found in nothing that the reconciler writes.
	Secret string
}

// checker replays a history.
type checker struct {
	rules   Rules
	nodes   map[types.UID]*corev1.Node
	first   map[types.UID]*corev1.Node // as they were first seen
	pods    map[types.UID]*corev1.Pod
	jobs    map[types.UID]*batchv1.Job
	ledger  fleetv1.LedgerSpec
	halts   map[string]halt              // by NodeWright/compartment
	records map[string]noderecord.Record // by NodeWright/node UID
	boots   map[types.UID]string         // the node's boot ID when a Job began
	done    map[string]types.UID         // stage of a package in a round → the pod in which it succeeded
	begun   map[string]bool              // containers that were seen running
	broken  []string
}

// halt is what was admitted already when the compartment was halted.
type halt struct {
	round int64
	next  int32
}

// Check replays changes, which are in order, and words each breach in a sentence that begins with the invariant's number.
func Check(changes []Change, rules Rules) []string {
	c := &checker{
		rules: rules, nodes: map[types.UID]*corev1.Node{}, first: map[types.UID]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{},
		jobs: map[types.UID]*batchv1.Job{}, halts: map[string]halt{}, records: map[string]noderecord.Record{},
		done: map[string]types.UID{}, boots: map[types.UID]string{}, begun: map[string]bool{},
	}
	for _, change := range changes {
		switch o := change.Object.(type) {
		case *corev1.Node:
			c.node(o, change.Deleted)
		case *corev1.Pod:
			c.pod(o, change.Deleted)
		case *batchv1.Job:
			c.job(o, change.Deleted)
		case *nwv1.NodeWright:
			c.secret("nodewright "+o.Name, o.Status)
		case *fleetv1.Ledger:
			c.secret("the ledger", o.Spec)
			c.ledgered(o, change.Deleted)
		}
	}
	return c.broken
}

func (c *checker) breach(format string, a ...any) {
	said := fmt.Sprintf(format, a...)
	for _, b := range c.broken {
		if b == said {
			return
		}
	}
	c.broken = append(c.broken, said)
}

// secret is invariant 10.
func (c *checker) secret(where string, o any) {
	if c.rules.Secret == "" {
		return
	}
	data, err := json.Marshal(o)
	if err != nil || strings.Contains(string(data), c.rules.Secret) {
		c.breach("10: %s shows the value of a Secret", where)
	}
}

func (c *checker) node(n *corev1.Node, deleted bool) {
	if deleted {
		delete(c.nodes, n.UID)
		return
	}
	if c.first[n.UID] == nil {
		c.first[n.UID] = n
	}
	c.nodes[n.UID] = n
	c.secret("node "+n.Name, n.Annotations)
	c.foreign(n)
	c.admissions(n)
	c.ceilings()
}

// foreign is invariant 5.
func (c *checker) foreign(n *corev1.Node) {
	was := c.first[n.UID]
	for what, maps := range map[string][2]map[string]string{
		"label": {was.Labels, n.Labels}, "annotation": {was.Annotations, n.Annotations},
	} {
		for key, value := range maps[0] {
			if strings.HasPrefix(key, c.rules.ForeignPrefix) && maps[1][key] != value {
				c.breach("5: %s %s of node %s was changed", what, key, n.Name)
			}
		}
	}
	for _, taint := range was.Spec.Taints {
		if strings.HasPrefix(taint.Key, c.rules.ForeignPrefix) && !hasTaint(n, taint) {
			c.breach("5: taint %s of node %s was changed", taint.Key, n.Name)
		}
	}
	if c.rules.ForeignCordons[n.Name] && was.Spec.Unschedulable && !n.Spec.Unschedulable {
		c.breach("5: the cordon of somebody else was taken off node %s", n.Name)
	}
}

func hasTaint(n *corev1.Node, taint corev1.Taint) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect {
			return true
		}
	}
	return false
}

// admissions is invariant 7: who is admitted after a halt has an order number that was given after it.
func (c *checker) admissions(n *corev1.Node) {
	for key, value := range n.Annotations {
		name, ours := strings.CutPrefix(key, fleetv1.RecordPrefix)
		if !ours {
			continue
		}
		record, found, err := noderecord.Decode(value, n.UID)
		if err != nil || !found {
			c.breach("the record of %s on node %s cannot be read: %v", name, n.Name, err)
			continue
		}
		before := c.records[name+"/"+string(n.UID)]
		c.records[name+"/"+string(n.UID)] = record
		admitted := record.IsOpen() && (record.Round != before.Round || record.Order != before.Order || !before.IsOpen())
		h, halted := c.halts[name+"/"+record.Compartment]
		if admitted && halted && h.round == record.Round && record.Order >= h.next {
			c.breach("7: node %s was admitted by %s after the halt", n.Name, name)
		}
	}
}

func (c *checker) ledgered(l *fleetv1.Ledger, deleted bool) {
	c.ledger = l.Spec
	if deleted {
		c.ledger = fleetv1.LedgerSpec{}
	}
	halts := map[string]halt{}
	for name, rollout := range c.ledger.Rollouts {
		for compartment, state := range rollout.Compartments {
			if state.Halt == nil {
				continue
			}
			key := name + "/" + compartment
			before, known := c.halts[key]
			if !known || before.round != rollout.Round {
				before = halt{rollout.Round, rollout.NextOrder}
			}
			halts[key] = before
		}
	}
	c.halts = halts
}

// ceilings is invariant 1.
func (c *checker) ceilings() {
	held := 0
	busy := map[string]int{}
	for _, n := range c.nodes {
		holds := false
		for name := range c.rules.Ceilings {
			r := c.records[name+"/"+string(n.UID)]
			owned := n.Annotations[nwv1.CordonKey(name)] != ""
			if owned || r.IsOpen() {
				busy[name]++
			}
			holds = holds || owned || r.IsOpen() && r.Disruptive
		}
		if holds {
			held++
		}
	}
	for name, n := range busy {
		if n > c.rules.Ceilings[name] {
			c.breach("1: %d nodes are at work or held under %s, whose ceiling is %d", n, name, c.rules.Ceilings[name])
		}
	}
	if c.rules.Budget > 0 && held > c.rules.Budget {
		c.breach("1: %d nodes are held, and the cluster's budget is %d", held, c.rules.Budget)
	}
}

func (c *checker) nodeNamed(name string) *corev1.Node {
	for _, n := range c.nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}
