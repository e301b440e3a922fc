package ask

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/verb"
)

// Wishes beside the verbs of package verb.
const (
	Pause    = "pause"
	Disable  = "disable"
	Enable   = "enable"
	Ignore   = "ignore"
	Unignore = "unignore"
)

// Wish is what is asked of one object.
type Wish struct {
	Target explain.Target
	// Name is a verb of package verb, or one of the constants above.
	Name string
	// Request has the token and the scope, for the verbs of package verb.
	Request verb.Request
}

// Change is the patch that asks for a wish, and what will follow.
type Change struct {
	Target explain.Target
	// Annotations and Labels to set; nil removes one.
	Annotations, Labels map[string]*string
	// Follows are sentences; the first says whether anything has to be done at all.
	Follows []string
}

// places are where a wish can be asked for.
var places = map[string][]explain.Kind{
	fleetv1.VerbRetry: {explain.Node, explain.NodeWright}, fleetv1.VerbReset: {explain.Node, explain.NodeWright},
	fleetv1.VerbRerun: {explain.Node, explain.NodeWright}, fleetv1.VerbAbandonUninstall: {explain.NodeWright},
	fleetv1.VerbResume: {explain.NodeWright}, Pause: {explain.NodeWright}, Disable: {explain.NodeWright}, Enable: {explain.NodeWright},
	fleetv1.VerbRegate: {explain.Node}, Ignore: {explain.Node}, Unignore: {explain.Node},
}

// Check refuses a wish that its target cannot have.
func (w Wish) Check() error {
	if slices.Contains(places[w.Name], w.Target.Kind) {
		return nil
	}
	return fmt.Errorf("%s is asked of a %s, not of a %s", w.Name, places[w.Name][0], w.Target.Kind)
}

// Plan is the change for a wish, on the cluster as it is seen. Names that the target does not have are an error that says
// which it has.
func Plan(in plan.Input, w Wish) (Change, error) {
	c := Change{Target: w.Target}
	switch w.Name {
	case Pause, Disable:
		return c.switched(in, w.Name, true), nil
	case Enable:
		return c.switched(in, Disable, false), nil
	case fleetv1.VerbResume:
		return c.resumed(in, w), nil
	case Ignore, Unignore:
		return c.ignored(in, w.Name == Ignore), nil
	}
	return c.requested(in, w)
}

// Empty reports whether there is nothing to write.
func (c Change) Empty() bool { return len(c.Annotations)+len(c.Labels) == 0 }

// Patch is the JSON merge patch of the change.
func (c Change) Patch() []byte {
	metadata := map[string]map[string]*string{}
	if len(c.Annotations) > 0 {
		metadata["annotations"] = c.Annotations
	}
	if len(c.Labels) > 0 {
		metadata["labels"] = c.Labels
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("write patch: %v", err))
	}
	return data
}

// Text is the change for people.
func (c Change) Text(done bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s", c.Target.Kind, c.Target.Name)
	switch {
	case c.Empty():
		b.WriteString(" stays as it is\n")
	case done:
		fmt.Fprintf(&b, " was patched: %s\n", c.Patch())
	default:
		fmt.Fprintf(&b, " would be patched: %s\n", c.Patch())
	}
	for _, line := range c.Follows {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

func (c Change) follows(format string, args ...any) Change {
	c.Follows = append(c.Follows, fmt.Sprintf(format, args...))
	return c
}

func nodeWrightOf(in plan.Input, name string) *plan.NodeWright {
	i := slices.IndexFunc(in.NodeWrights, func(nw plan.NodeWright) bool { return nw.Name == name })
	return &in.NodeWrights[i] // the target exists
}

func nodeOf(in plan.Input, name string) *plan.Node {
	i := slices.IndexFunc(in.Nodes, func(n plan.Node) bool { return n.Name == name })
	return &in.Nodes[i]
}

// switched sets or removes one of NVIDIA's two switches.
func (c Change) switched(in plan.Input, name string, on bool) Change {
	nw := nodeWrightOf(in, c.Target.Name)
	is, key := nw.Paused, nwv1.PauseAnnotation
	if name == Disable {
		is, key = nw.Disabled, nwv1.DisableAnnotation
	}
	if is == on {
		return c.follows("nothing to do: it is so already")
	}
	c.Annotations = map[string]*string{key: nil}
	if on {
		c.Annotations[key] = new(nwv1.TrueValue)
	}
	running := running(in, c.Target.Name)
	switch {
	case !on:
		return c.follows("it goes on where it was")
	case name == Disable:
		return c.follows("nothing new starts; the NodeWrights behind it go on").follows("what runs goes on to its end: %s", running)
	}
	return c.follows("nothing new starts, here and in every NodeWright behind it").follows("what runs is suspended: %s", running)
}

// running names the nodes on which an execution of the NodeWright has not ended.
func running(in plan.Input, nodeWright string) string {
	var names []string
	for i := range in.Nodes {
		if slices.ContainsFunc(in.Nodes[i].Executions, func(e plan.Execution) bool { return e.NodeWright == nodeWright && !e.Ended() }) {
			names = append(names, in.Nodes[i].Name)
		}
	}
	return list(names)
}

// list names the first few.
func list(names []string) string {
	const most = 10
	if len(names) == 0 {
		return "nothing"
	}
	slices.Sort(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// resumed takes a pause off and ends halts.
func (c Change) resumed(in plan.Input, w Wish) Change {
	nw := nodeWrightOf(in, c.Target.Name)
	halted := halted(in.Ledger.Rollouts[nw.Name])
	c.Annotations = map[string]*string{}
	if nw.Paused {
		c.Annotations[nwv1.PauseAnnotation] = nil
		c = c.follows("the pause is taken off: it goes on where it was")
	}
	if len(halted) > 0 {
		c.Annotations[w.Request.Key()] = new(w.Request.Value())
		c = c.follows("halts end: compartment %s. Failed nodes need a retry beside it", list(halted))
	}
	if c.Empty() {
		return c.follows("nothing to do: it is neither paused nor halted")
	}
	return c
}

func halted(l fleetv1.LedgerRollout) []string {
	var out []string
	for name, c := range l.Compartments {
		if c.Halt != nil {
			out = append(out, name)
		}
	}
	return out
}

func (c Change) ignored(in plan.Input, on bool) Change {
	n := nodeOf(in, c.Target.Name)
	if (n.Labels[nwv1.IgnoreLabel] == nwv1.TrueValue) == on {
		return c.follows("nothing to do: it is so already")
	}
	c.Labels = map[string]*string{nwv1.IgnoreLabel: nil}
	if !on {
		return c.follows("every NodeWright that selects the node works on it again")
	}
	c.Labels[nwv1.IgnoreLabel] = new(nwv1.TrueValue)
	c = c.follows("no NodeWright starts anything on the node; what runs goes on to its end")
	if len(n.CordonOwners) > 0 {
		c = c.follows("it stays cordoned by %s until it is taken up again", list(slices.Clone(n.CordonOwners)))
	}
	return c
}

// requested sets the annotation of a verb, and lets the planner say who is meant.
func (c Change) requested(in plan.Input, w Wish) (Change, error) {
	w.Request.Verb = w.Name
	key, value := w.Request.Key(), w.Request.Value()
	on := map[explain.Kind]verb.Place{explain.Node: verb.OnNode, explain.NodeWright: verb.OnNodeWright}[w.Target.Kind]
	if _, err := verb.Parse(on, w.Name, value); err != nil {
		return c, err
	}
	c.Annotations = map[string]*string{key: &value}
	in.NodeWrights, in.Nodes = slices.Clone(in.NodeWrights), slices.Clone(in.Nodes)
	if w.Target.Kind == explain.NodeWright {
		setRequest(nodeWrightOf(in, w.Target.Name), w.Name, value)
	} else {
		n := nodeOf(in, w.Target.Name)
		n.Requests = maps.Clone(n.Requests)
		if n.Requests == nil {
			n.Requests = map[string]string{}
		}
		n.Requests[w.Name] = value
	}
	return c.foretold(plan.Compute(in), w)
}

func setRequest(nw *plan.NodeWright, name, value string) {
	switch name {
	case fleetv1.VerbRetry:
		nw.Retry = value
	case fleetv1.VerbRerun:
		nw.Rerun = value
	case fleetv1.VerbReset:
		nw.Reset = value
	case fleetv1.VerbAbandonUninstall:
		nw.Abandon = value
	}
}

// foretold says what the planner makes of the request.
func (c Change) foretold(out plan.Output, w Wish) (Change, error) {
	for _, r := range out.RefusedRequests {
		if r.Node == w.Target.Name && w.Target.Kind == explain.Node && strings.HasPrefix(r.Message, w.Request.Key()+":") {
			return c, fmt.Errorf("%s", r.Message)
		}
	}
	for _, s := range out.Statuses {
		for _, r := range s.Requests {
			if s.NodeWright == w.Target.Name && w.Target.Kind == explain.NodeWright && r.Verb == w.Name {
				if r.Problem != "" {
					return c, fmt.Errorf("%s", r.Problem)
				}
				c = c.follows("nodes that are meant: %s", list(slices.Clone(r.Nodes)))
			}
		}
		if len(s.Halted) > 0 && (w.Target.Kind == explain.Node || s.NodeWright == w.Target.Name) {
			c = c.follows("nodewright %s is halted: it waits until a resume, a reset of the whole NodeWright, or new content", s.NodeWright)
		}
	}
	for _, r := range out.Reasons {
		if w.Target.Kind == explain.Node && r.Node == w.Target.Name && w.Request.ForNodeWright(r.NodeWright) {
			c = c.follows("nodewright %s: %s, %s", r.NodeWright, r.Code, r.Message)
		}
	}
	if w.Name == fleetv1.VerbRegate {
		c = c.follows("pods that run there stay; nothing else is scheduled there until every runtime-required NodeWright is complete")
	}
	if w.Name == fleetv1.VerbAbandonUninstall {
		c = c.follows("what has to be uninstalled in this round is left where it is: its record goes, the files stay")
	} else {
		c = c.follows("budgets, windows, pauses and protected pods hold as for any other work")
	}
	return c, nil
}
