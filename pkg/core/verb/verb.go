package verb

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Place is the kind of object that carries a request.
type Place string

const (
	// OnNodeWright: the request may name nodes.
	OnNodeWright Place = "NodeWright"
	// OnNode: the request is for this node, and may name NodeWrights.
	OnNode Place = "Node"
)

// Keys of a request's value.
const (
	keyPackage    = "package"
	keyStage      = "stage"
	keyNode       = "node"
	keyNodeWright = "nodewright"
)

// Stages that a package may be run again from, in their order.
var Stages = []nwv1.Stage{nwv1.StageApply, nwv1.StageConfig, nwv1.StageInterrupt, nwv1.StagePostInterrupt}

// allowed are the keys of each verb, by where it stands.
var allowed = map[Place]map[string][]string{
	OnNodeWright: {
		fleetv1.VerbRetry: {keyPackage, keyNode}, fleetv1.VerbReset: {keyPackage, keyNode},
		fleetv1.VerbRerun: {keyPackage, keyStage, keyNode}, fleetv1.VerbResume: nil,
		fleetv1.VerbAbandonUninstall: nil,
	},
	OnNode: {
		fleetv1.VerbRetry: {keyPackage, keyNodeWright}, fleetv1.VerbReset: {keyPackage, keyNodeWright},
		fleetv1.VerbRerun: {keyPackage, keyStage, keyNodeWright}, fleetv1.VerbRegate: {keyNodeWright},
	},
}

// Request is one request.
type Request struct {
	// Verb is one of the Verb… constants of the API.
	Verb string
	// Token identifies the request: up to 63 letters, digits and `.`, `_`, `:`, `+`, `-`.
	Token string
	// Packages, Nodes and NodeWrights that it is for; empty: all.
	Packages, Nodes, NodeWrights []string
	// Stage to run again from; empty: apply.
	Stage nwv1.Stage
}

var token = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+-]{0,62}$`)

// Parse reads the value of a verb's annotation. The error is one sentence that says what is allowed.
func Parse(on Place, name, value string) (Request, error) {
	keys, known := allowed[on][name]
	if !known {
		return Request{}, fmt.Errorf("%s is not asked for on a %s", name, on)
	}
	words := strings.Fields(value)
	if len(words) == 0 || !token.MatchString(words[0]) {
		return Request{}, fmt.Errorf("a value begins with a token of up to 63 letters, digits and . _ : + -, not %q", first(words))
	}
	r := Request{Verb: name, Token: words[0]}
	for _, w := range words[1:] {
		if err := r.read(keys, w); err != nil {
			return Request{}, err
		}
	}
	return r, nil
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func (r *Request) read(keys []string, word string) error {
	key, value, found := strings.Cut(word, "=")
	switch {
	case len(keys) == 0:
		return fmt.Errorf("%s takes a token and nothing more, not %q", r.Verb, word)
	case !found || !slices.Contains(keys, key) || value == "":
		return fmt.Errorf("%q is not one of %s=…", word, strings.Join(keys, "=…, "))
	}
	names := strings.Split(value, ",")
	switch key {
	case keyPackage:
		r.Packages = names
	case keyNode:
		r.Nodes = names
	case keyNodeWright:
		r.NodeWrights = names
	case keyStage:
		if !slices.Contains(Stages, nwv1.Stage(value)) {
			return fmt.Errorf("stage %q is not one of %s", value, StageNames())
		}
		r.Stage = nwv1.Stage(value)
	}
	return nil
}

// StageNames lists Stages for people.
func StageNames() string {
	out := make([]string, 0, len(Stages))
	for _, s := range Stages {
		out = append(out, string(s))
	}
	return strings.Join(out, ", ")
}

// Value is the annotation's value; Parse reads it.
func (r Request) Value() string {
	out := []string{r.Token}
	for _, part := range []struct {
		key   string
		names []string
	}{{keyPackage, r.Packages}, {keyStage, stageWords(r.Stage)}, {keyNode, r.Nodes}, {keyNodeWright, r.NodeWrights}} {
		if len(part.names) > 0 {
			out = append(out, part.key+"="+strings.Join(part.names, ","))
		}
	}
	return strings.Join(out, " ")
}

func stageWords(s nwv1.Stage) []string {
	if s == "" {
		return nil
	}
	return []string{string(s)}
}

// Key is the annotation that carries the request.
func (r Request) Key() string { return fleetv1.VerbKey(r.Verb) }

// From is the stage to run again from.
func (r Request) From() nwv1.Stage {
	if r.Stage == "" {
		return nwv1.StageApply
	}
	return r.Stage
}

// ForPackage, ForNode and ForNodeWright report whether the request is for it. No names stand for all.
func (r Request) ForPackage(name string) bool { return isFor(r.Packages, name) }

// ForNode is like ForPackage.
func (r Request) ForNode(name string) bool { return isFor(r.Nodes, name) }

// ForNodeWright is like ForPackage.
func (r Request) ForNodeWright(name string) bool { return isFor(r.NodeWrights, name) }

func isFor(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
