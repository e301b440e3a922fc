package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// patchOp is one operation of a JSON patch (RFC 6902). A test against null holds for what is absent.
type patchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// errOutdated says that the node's record is no longer what the decision was made from.
type errOutdated struct{ nodeWright string }

func (e errOutdated) Error() string {
	return fmt.Sprintf("the record of nodewright %s changed since the decision", e.nodeWright)
}

// nodePatch builds the one patch of a node that a decision asks for; none if it asks for nothing.
type nodePatch struct {
	node        *corev1.Node
	annotations map[string]string // what the node has, and will have after the operations so far
	labels      map[string]string
	ops         []patchOp
	tested      int // operations before this one only test
}

// buildPatch translates a decision. Every patch tests the node's UID and the whole old record of the NodeWright, as it
// stands on the node; it fails at once if that is not the record that the decision was made from.
func buildPatch(node *corev1.Node, d plan.Decision, version string) ([]patchOp, error) {
	if d.Record == nil && d.Cordon == plan.CordonKeep && !d.Erase && len(d.Untaint) == 0 && d.Taint == nil {
		return nil, nil
	}
	p := &nodePatch{node: node, annotations: maps.Clone(node.Annotations), labels: maps.Clone(node.Labels)}
	p.test("/metadata/uid", string(d.NodeUID))
	if err := p.testRecord(d); err != nil {
		return nil, err
	}
	p.tested = len(p.ops)
	p.record(d, version)
	p.cordon(d)
	p.untaint(d)
	p.taint(d.Taint)
	if d.Erase {
		p.erase(d)
	}
	if len(p.ops) == p.tested {
		return nil, nil // the node is already as it should be
	}
	return p.ops, nil
}

func (p *nodePatch) test(path string, value any) {
	p.ops = append(p.ops, patchOp{"test", path, value})
}

// testRecord tests the record's text as it stands on the node, so that fields of a newer version count too.
func (p *nodePatch) testRecord(d plan.Decision) error {
	raw, found := p.node.Annotations[fleetv1.RecordKey(d.NodeWright)]
	record, ours, err := noderecord.Decode(raw, d.NodeUID)
	switch {
	case err != nil && !d.Erase && d.Action != plan.ActionReset: // a record that cannot be read is replaced only when that is asked for
		return errOutdated{d.NodeWright}
	case err == nil && !sameRecord(record, ours, d.Before):
		return errOutdated{d.NodeWright}
	case p.node.Annotations == nil:
		p.test("/metadata/annotations", nil)
	case !found:
		p.test(annotationPath(fleetv1.RecordKey(d.NodeWright)), nil)
	default:
		p.test(annotationPath(fleetv1.RecordKey(d.NodeWright)), raw)
	}
	return nil
}

// recordStands reports whether the node still carries the record that the decision was made from.
func recordStands(node *corev1.Node, d plan.Decision) bool {
	have, found, err := noderecord.Decode(node.Annotations[fleetv1.RecordKey(d.NodeWright)], d.NodeUID)
	return err == nil && sameRecord(have, found, d.Before)
}

func sameRecord(have noderecord.Record, found bool, before *noderecord.Record) bool {
	if before == nil {
		return !found
	}
	return found && noderecord.Encode(have) == noderecord.Encode(*before)
}

// record writes the record and NVIDIA's mirrors of it.
func (p *nodePatch) record(d plan.Decision, version string) {
	if d.Record == nil {
		return
	}
	written := noderecord.Annotations(d.NodeWright, *d.Record, d.Status, version)
	key := fleetv1.RecordKey(d.NodeWright)
	written[key] = noderecord.EncodeOver(p.annotations[key], *d.Record)
	switch {
	case d.Erase: // what is on the host is kept for an object that comes back, and nothing else
		delete(written, nwv1.StatusKey(d.NodeWright))
		delete(written, nwv1.VersionKey(d.NodeWright))
	case d.Status == "":
		delete(written, nwv1.StatusKey(d.NodeWright))
		p.dropStatus(d.NodeWright)
	default:
		p.label(nwv1.StatusKey(d.NodeWright), string(d.Status))
	}
	for _, key := range slices.Sorted(maps.Keys(written)) {
		p.annotate(key, written[key])
	}
}

// cordon takes or gives back the cordon. What was seen is tested: a cordon that somebody else set in the meantime is
// not taken for ours, and one that somebody else still owns is not taken off.
func (p *nodePatch) cordon(d plan.Decision) {
	key := nwv1.CordonKey(d.NodeWright)
	switch d.Cordon {
	case plan.CordonTake:
		p.testUnschedulable()
		if p.node.Spec.Unschedulable && len(cordonOwners(p.annotations)) == 0 {
			return // somebody else's, since the decision: it is used and not owned
		}
		p.annotate(key, nwv1.TrueValue)
		if p.node.Spec.Unschedulable {
			return
		}
		if stale := nwv1.RuntimeRequiredCordonAnnotation; p.has(stale) { // that cordon was lifted; ours must not stay for it
			p.unannotate(stale)
		}
		p.ops = append(p.ops, patchOp{"add", "/spec/unschedulable", true})
	case plan.CordonDrop:
		p.dropCordon(key)
	case plan.CordonKeep:
	}
}

func (p *nodePatch) testUnschedulable() {
	var value any
	if p.node.Spec.Unschedulable {
		value = true
	}
	p.test("/spec/unschedulable", value)
	p.tested++
}

// dropCordon removes our owner mark and, if it was the last one, the cordon. Others may come and go in between. A new
// owner comes under a key that nobody can test for, so the last owner's patch tests the whole node (its resourceVersion).
// Whoever leaves the cordon to others tests that they are still there: of two that go at once, the slower one is refused,
// and then finds itself the last.
func (p *nodePatch) dropCordon(key string) {
	if !p.has(key) {
		return
	}
	p.unannotate(key)
	if !p.node.Spec.Unschedulable {
		return
	}
	if others := p.otherCordons(); len(others) > 0 {
		for _, other := range others {
			p.test(annotationPath(other), p.annotations[other])
			p.tested++
		}
		return
	}
	p.test("/metadata/resourceVersion", p.node.ResourceVersion)
	p.tested++
	p.ops = append(p.ops, patchOp{Op: "remove", Path: "/spec/unschedulable"})
}

// otherCordons are the annotations, without ours, for which the cordon stays.
func (p *nodePatch) otherCordons() []string {
	var out []string
	for _, name := range cordonOwners(p.annotations) {
		out = append(out, nwv1.CordonKey(name))
	}
	if p.annotations[nwv1.RuntimeRequiredCordonAnnotation] != "" {
		out = append(out, nwv1.RuntimeRequiredCordonAnnotation)
	}
	return out
}

// erase removes everything of a NodeWright that is gone: keys by their exact names, never by a suffix.
func (p *nodePatch) erase(d plan.Decision) {
	name := d.NodeWright
	p.dropCordon(nwv1.CordonKey(name))
	keys := []string{nwv1.VersionKey(name), nwv1.DrainStartKey(name), nwv1.DrainBlockedKey(name)}
	if d.Record == nil {
		keys = append(keys, fleetv1.RecordKey(name), nwv1.NodeStateKey(name))
	}
	for _, key := range keys {
		if p.has(key) {
			p.unannotate(key)
		}
	}
	p.dropStatus(name)
}

// dropStatus removes the status word of a NodeWright, annotation and label.
func (p *nodePatch) dropStatus(name string) {
	key := nwv1.StatusKey(name)
	if p.has(key) {
		p.unannotate(key)
	}
	if p.labels[key] != "" {
		delete(p.labels, key)
		p.ops = append(p.ops, patchOp{Op: "remove", Path: labelPath(key)})
	}
}

func (p *nodePatch) has(key string) bool {
	_, ok := p.annotations[key]
	return ok
}

func (p *nodePatch) annotate(key, value string) {
	if have, ok := p.annotations[key]; ok && have == value {
		return
	}
	if p.annotations == nil {
		p.annotations = map[string]string{}
		p.ops = append(p.ops, patchOp{"add", "/metadata/annotations", map[string]string{}})
	}
	p.annotations[key] = value
	p.ops = append(p.ops, patchOp{"add", annotationPath(key), value})
}

func (p *nodePatch) unannotate(key string) {
	delete(p.annotations, key)
	p.ops = append(p.ops, patchOp{Op: "remove", Path: annotationPath(key)})
}

func (p *nodePatch) label(key, value string) {
	if p.labels[key] == value {
		return
	}
	if p.labels == nil {
		p.labels = map[string]string{}
		p.test("/metadata/labels", nil)
		p.ops = append(p.ops, patchOp{"add", "/metadata/labels", map[string]string{}})
	}
	p.labels[key] = value
	p.ops = append(p.ops, patchOp{"add", labelPath(key), value})
}

func annotationPath(key string) string { return "/metadata/annotations/" + escape(key) }
func labelPath(key string) string      { return "/metadata/labels/" + escape(key) }

// escape writes a key as a part of a JSON pointer (RFC 6901).
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// MarshalJSON leaves out the value of a removal: some servers refuse it.
func (o patchOp) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]string{"op": o.Op, "path": o.Path})
	}
	type plain patchOp
	return json.Marshal(plain(o))
}
