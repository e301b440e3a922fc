package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// Node is what is read of a node.
type Node struct {
	Name          string
	UID           types.UID
	Annotations   map[string]string
	Labels        map[string]string
	Unschedulable bool
	// Running names a pod of NVIDIA's operator that still works on the node; empty if there is none.
	Running string
}

// Rollout is one NodeWright and what NVIDIA's operator knows of it beside the nodes.
type Rollout struct {
	Name string
	UID  types.UID
	// Set is what the spec wants, as the planner has it.
	Set desired.Set
	// Updates are the configMap keys whose change is not complete everywhere, by package (`status.configUpdates`).
	Updates map[string][]string
	// UpdatesUnknown says that the object's status does not have them (our CRD does not keep that field): on a node half-way any
	// key may have changed.
	UpdatesUnknown bool
	// Configs are the data of the operator's ConfigMaps, by `package|version`: what the nodes were configured with.
	Configs map[string]map[string]string
	// TrustSpec takes the spec's configMap for what is on the nodes where the operator's ConfigMap is gone.
	TrustSpec bool
}

// Entry is what adoption does for one NodeWright on one node.
type Entry struct {
	Node       string    `json:"node"`
	NodeUID    types.UID `json:"-"`
	NodeWright string    `json:"nodewright"`
	// Record to write; nil: nothing is written, because of Adopted or Ambiguous.
	Record *noderecord.Record `json:"record,omitempty"`
	// Status is NVIDIA's word for the node.
	Status nwv1.Status `json:"status,omitempty"`
	// Snapshots are the definitions that the record names.
	Snapshots []desired.Package `json:"-"`
	// Cordon: the node's cordon is this NodeWright's. Ignore: the old ignore label is set again under its new name.
	Cordon bool `json:"cordon,omitempty"`
	Ignore bool `json:"ignore,omitempty"`
	// Seen are the annotations that this was decided from; they must be as they were when the record is written.
	Seen map[string]string `json:"-"`
	// Adopted: there is a record of ours already.
	Adopted bool `json:"adopted,omitempty"`
	// Done are the packages that count as complete, Runs those that the planner would run, with the reason.
	Done []string `json:"done,omitempty"`
	Runs []string `json:"runs,omitempty"`
	// Ambiguous says what could mean two things.
	Ambiguous []string `json:"ambiguous,omitempty"`

	complete bool // NVIDIA's operator says so of the whole node
}

// stored is one package in NVIDIA's nodeState.
type stored struct {
	Name         string     `json:"name"`
	Version      string     `json:"version"`
	Image        string     `json:"image"`
	ContainerSHA string     `json:"containerSHA"`
	Stage        nwv1.Stage `json:"stage"`
	State        nwv1.State `json:"state"`
}

// prefixes of NVIDIA's keys, the newer first: since v0.18 its operator copies the old keys once and goes on with the new ones.
var prefixes = []string{nwv1.Group, nwv1.LegacyGroup}

// Names are the NodeWrights that NVIDIA's operator left state of on a node, sorted.
func Names(annotations map[string]string) []string {
	var out []string
	for key := range annotations {
		for _, prefix := range prefixes {
			if name, ok := strings.CutPrefix(key, prefix+"/nodeState_"); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Plan reads a node.
func Plan(n Node, r Rollout) Entry {
	e := Entry{Node: n.Name, NodeUID: n.UID, NodeWright: r.Name, Seen: map[string]string{}}
	if _, found, err := noderecord.Decode(n.Annotations[fleetv1.RecordKey(r.Name)], n.UID); found || err != nil {
		e.Adopted = true
		return e
	}
	entries, err := e.read(n)
	switch {
	case err != nil:
		e.Ambiguous = append(e.Ambiguous, err.Error())
	case n.Running != "":
		e.Ambiguous = append(e.Ambiguous, "pod "+n.Running+" of NVIDIA's operator is still at work: wait for its end, or delete it")
	}
	rec := noderecord.Record{Node: n.UID, NodeWright: r.UID, Outcome: noderecord.Succeeded, Packages: map[string]noderecord.Package{}}
	e.complete = e.word(n) == nwv1.StatusComplete
	for i := range r.Set.Packages {
		def := &r.Set.Packages[i]
		if pkg, known := e.packageOf(def, entries, r); known {
			rec.Packages[def.Name] = pkg
		}
	}
	if len(e.Ambiguous) > 0 {
		return e
	}
	e.finish(n, rec)
	return e
}

// finish puts the record together. A node that is half-way and cordoned keeps its cordon until it had its turn: to the planner
// it is one that failed and mended itself.
func (e *Entry) finish(n Node, rec noderecord.Record) {
	e.Ignore = n.Labels[nwv1.LegacyGroup+"/ignore"] == nwv1.TrueValue && n.Labels[nwv1.IgnoreLabel] == ""
	for _, prefix := range prefixes {
		key := prefix + "/cordon_" + e.NodeWright
		if value, ok := n.Annotations[key]; ok {
			e.Seen[key] = value
			e.Cordon = e.Cordon || value == nwv1.TrueValue && n.Unschedulable
		}
	}
	e.Status = nwv1.StatusComplete
	if len(e.Runs) > 0 {
		e.Status, rec.Outcome = nwv1.StatusWaiting, noderecord.Released
		if e.Cordon {
			rec.Outcome, rec.Healed = noderecord.Failed, true
		}
	}
	e.Record = &rec
}

// word is the status that NVIDIA's operator gave the node.
func (e *Entry) word(n Node) nwv1.Status {
	for _, prefix := range prefixes {
		key := prefix + "/status_" + e.NodeWright
		if value, ok := n.Annotations[key]; ok {
			e.Seen[key] = value
			return nwv1.Status(value)
		}
	}
	return ""
}

// read are the entries of the node, by package name; several for one name are versions.
func (e *Entry) read(n Node) (map[string][]stored, error) {
	out := map[string][]stored{}
	for _, prefix := range prefixes {
		key := prefix + "/nodeState_" + e.NodeWright
		value, ok := n.Annotations[key]
		if !ok {
			continue
		}
		e.Seen[key] = value
		var raw map[string]stored
		if err := json.Unmarshal([]byte(value), &raw); err != nil {
			return nil, fmt.Errorf("annotation %s cannot be read: %w", key, err)
		}
		for _, k := range slices.Sorted(maps.Keys(raw)) {
			s := raw[k]
			if nwv1.NodeStateEntry(s.Name, s.Version) != k {
				return nil, fmt.Errorf("annotation %s: entry %q is of %q in version %q", key, k, s.Name, s.Version)
			}
			out[s.Name] = append(out[s.Name], s)
		}
		return out, nil
	}
	return out, nil
}

// packageOf is the package as our record has it; false: nothing of it was ever there.
func (e *Entry) packageOf(def *desired.Package, entries map[string][]stored, r Rollout) (noderecord.Package, bool) {
	versions := entries[def.Name]
	i := slices.IndexFunc(versions, func(s stored) bool { return s.Version == def.Version })
	switch {
	case len(versions) == 0 && def.Absent:
		return noderecord.Package{}, false
	case len(versions) == 0:
		e.runs(def, "it is not on the node")
		return noderecord.Package{}, false
	case i < 0 && len(versions) > 1:
		e.doubt(def, fmt.Sprintf("the node has %d other versions, and which one is there last is not known", len(versions)))
		return noderecord.Package{}, false
	case i < 0:
		old := versions[0]
		e.runs(def, "the node has version "+old.Version)
		return noderecord.Package{Version: old.Version, Image: old.Image, Digest: old.ContainerSHA, Stage: old.Stage, State: old.State}, true
	}
	return e.sameVersion(def, versions, versions[i], r)
}

// sameVersion reads the entry of the version that is wanted.
func (e *Entry) sameVersion(def *desired.Package, all []stored, s stored, r Rollout) (noderecord.Package, bool) {
	if strings.TrimSuffix(s.Image, ":"+s.Version) != def.Image || s.ContainerSHA != def.Digest {
		e.doubt(def, fmt.Sprintf("what ran is %s %s, and the spec says %s %s in the same version", s.Image, s.ContainerSHA, def.Image, def.Digest))
		return noderecord.Package{}, false
	}
	pkg := noderecord.Package{Version: s.Version, Image: def.Image, Digest: def.Digest, Stage: s.Stage, State: s.State, Snapshot: def.SnapshotHash}
	if s.Stage == nwv1.StageUninstall || s.Stage == nwv1.StageUninstallInterrupt {
		return e.uninstalling(def, pkg)
	}
	if !e.configured(def, &pkg, r) {
		return noderecord.Package{}, false
	}
	e.Snapshots = append(e.Snapshots, *def)
	pkg.Attempted = def.InstallHash
	for _, other := range all { // an upgrade that is not done goes on from there
		if other.Version != s.Version && s.Stage == nwv1.StageUpgrade {
			pkg.From = other.Version
		}
	}
	e.stage(def, &pkg, r.scopeOf(def))
	return pkg, true
}

// scope is what the interrupt of a node half-way is for: the install, or keys of the configMap.
type scope struct {
	install bool
	keys    []string
}

// scopeOf is the scope in the operator's words: the changed keys if there are any, else the install. Where they are not known it
// is both, as an interrupt too many is better than a change that never takes effect.
func (r Rollout) scopeOf(def *desired.Package) scope {
	keys := r.Updates[def.Name]
	switch {
	case len(keys) > 0:
		return scope{keys: keys}
	case !r.UpdatesUnknown:
		return scope{install: true}
	}
	var any []string
	for _, key := range slices.Sorted(maps.Keys(def.ConfigMap)) {
		if (scope{keys: []string{key}}).interrupts(def) {
			any = append(any, key)
		}
	}
	return scope{install: true, keys: any}
}

// configured notes with which configuration the package ran: the spec may have changed since.
func (e *Entry) configured(def *desired.Package, pkg *noderecord.Package, r Rollout) bool {
	data, known := r.Configs[nwv1.NodeStateEntry(def.Name, def.Version)]
	if !known {
		if len(def.ConfigMap) > 0 && !r.TrustSpec {
			e.doubt(def, "the operator's ConfigMap is gone, so it is not known which configuration is on the node; with --trust-spec it is that of the spec")
			return false
		}
		data = def.ConfigMap
	}
	if maps.Equal(data, def.ConfigMap) {
		pkg.AttemptedConfig, pkg.Keys = def.ConfigHash, def.KeyHashes
		return true
	}
	pkg.AttemptedConfig, pkg.Keys = "adopted", desired.KeyHashes(data)
	return true
}

// stage reads how far the package is.
func (e *Entry) stage(def *desired.Package, pkg *noderecord.Package, due scope) {
	done := pkg.State == nwv1.StateComplete
	switch {
	case pkg.Stage == nwv1.StageApply || pkg.Stage == nwv1.StageUpgrade:
		pkg.DueInstall = true
		if done {
			pkg.Applied, pkg.From = def.InstallHash, ""
		}
		e.runs(def, fmt.Sprintf("stage %s is %s", pkg.Stage, pkg.State))
		return
	case pkg.Stage == nwv1.StageConfig && !done:
		pkg.Applied, pkg.DueInstall, pkg.DueKeys = def.InstallHash, due.install, due.keys
		e.runs(def, fmt.Sprintf("stage %s is %s", pkg.Stage, pkg.State))
		return
	}
	pkg.Applied, pkg.Configured = def.InstallHash, pkg.AttemptedConfig
	switch {
	case pkg.Stage == nwv1.StagePostInterrupt && done, pkg.Stage == nwv1.StageConfig && (e.complete || !due.interrupts(def)):
	case pkg.Stage == nwv1.StageInterrupt && done, pkg.Stage == nwv1.StagePostInterrupt:
		pkg.Post = true
		e.runs(def, "stage post-interrupt is to come")
		return
	case pkg.Stage == nwv1.StageConfig, pkg.Stage == nwv1.StageInterrupt:
		pkg.DueInstall, pkg.DueKeys = due.install, due.keys
		e.runs(def, "its interrupt is to come")
		return
	default:
		e.doubt(def, fmt.Sprintf("stage %q in state %q is not one of NVIDIA's operator", pkg.Stage, pkg.State))
		return
	}
	if pkg.AttemptedConfig != def.ConfigHash {
		e.runs(def, "its configuration has changed since")
		return
	}
	e.Done = append(e.Done, def.Name+" "+def.Version)
}

// interrupts reports whether an interrupt is in scope.
func (s scope) interrupts(def *desired.Package) bool {
	if s.install && def.Interrupt != nil {
		return true
	}
	for pattern := range def.ConfigInterrupts {
		for _, key := range s.keys {
			if matched, err := path.Match(pattern, key); pattern == key || err == nil && matched {
				return true
			}
		}
	}
	return false
}

func (e *Entry) uninstalling(def *desired.Package, pkg noderecord.Package) (noderecord.Package, bool) {
	if !def.Absent {
		e.doubt(def, "an uninstall is under way that the spec does not ask for")
		return noderecord.Package{}, false
	}
	e.Snapshots = append(e.Snapshots, *def)
	pkg.Removing, pkg.DueUninstall = true, pkg.Stage == nwv1.StageUninstallInterrupt
	e.runs(def, "its uninstall goes on")
	return pkg, true
}

func (e *Entry) runs(def *desired.Package, why string) {
	e.Runs = append(e.Runs, def.Name+" "+def.Version+": "+why)
}

func (e *Entry) doubt(def *desired.Package, why string) {
	e.Ambiguous = append(e.Ambiguous, "package "+def.Name+" "+def.Version+": "+why)
}
