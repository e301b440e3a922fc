package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// selectorOf returns the selector; one that does not parse was refused before and matches nothing.
func selectorOf(s metav1.LabelSelector) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// protectedBy is the selector of the pods that a NodeWright must not disturb; nil protects none.
func protectedBy(nw *NodeWright) labels.Selector {
	s := nw.Spec.PodNonInterruptLabels
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil
	}
	return selectorOf(s)
}

// selectorIndex finds which of many compartments select a node without asking each: those that want one of some values
// of a label are asked only where the node has such a value. Compartments by rack or zone all want the same label, so a
// node asks one of them instead of twenty.
type selectorIndex struct {
	byValue map[string]map[string][]*compartment
	// keys of byValue, in the order in which they were met.
	keys []string
	// rest are asked for every node.
	rest []*compartment
}

func indexOf(compartments []*compartment) *selectorIndex {
	x := &selectorIndex{byValue: map[string]map[string][]*compartment{}}
	for _, c := range compartments {
		if c.selector == nil {
			continue // the default
		}
		key, values := wantedValues(c.selector)
		if key == "" {
			x.rest = append(x.rest, c)
			continue
		}
		if x.byValue[key] == nil {
			x.byValue[key] = map[string][]*compartment{}
			x.keys = append(x.keys, key)
		}
		for _, value := range values {
			x.byValue[key][value] = append(x.byValue[key][value], c)
		}
	}
	return x
}

// wantedValues are the values of one label of which a selector needs one; without a key there is no such label.
func wantedValues(s labels.Selector) (key string, values []string) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return "", nil
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			return r.Key(), r.ValuesUnsorted()
		}
	}
	return "", nil
}

// appendMatching adds the compartments that select a node, in no particular order.
func (x *selectorIndex) appendMatching(out []*compartment, node labels.Set) []*compartment {
	for _, key := range x.keys {
		if value, has := node[key]; has {
			out = appendSelecting(out, x.byValue[key][value], node)
		}
	}
	return appendSelecting(out, x.rest, node)
}

func appendSelecting(out, asked []*compartment, node labels.Set) []*compartment {
	for _, c := range asked {
		if c.selector.Matches(node) {
			out = append(out, c)
		}
	}
	return out
}
