package noderecord

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Schema numbers what the fields of a record mean. It grows when a version changes what one means, or writes one that no other
// may overlook; fields that others may overlook need no new number (see EncodeOver). A record without a number is from before
// there were any, and means what 1 means. A version reads its own number and the one before.
const Schema = 1

// NewerError is a record whose number this version does not know. What it says must not be guessed at.
type NewerError struct{ Schema int64 }

// Error is one sentence that says what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the record has schema %d, of a newer version of Fleetwright; this one reads up to %d: upgrade the reconciler again", e.Schema, Schema)
}

// Decode reads one annotation value. A record of another node UID yields found = false: the node was re-created, and
// nothing of the old one holds.
//
// The packages are decoded from the text that stands for them, as a Reader does: JSON that names them twice means the last.
func Decode(value string, node types.UID) (r Record, found bool, err error) {
	t, found, err := decodeText(value, node)
	if err != nil || !found {
		return Record{}, false, err
	}
	r = t.Record
	if r.Packages, err = t.packages(); err == nil {
		err = r.check()
	}
	if err != nil {
		return Record{}, false, fmt.Errorf("read record: %w", err)
	}
	return r, true, nil
}

// text is a record whose packages are not decoded yet.
type text struct {
	Schema int64 `json:"schema"`
	Record
	Packages json.RawMessage `json:"packages"`
}

// decodeText reads everything but the packages.
func decodeText(value string, node types.UID) (t text, found bool, err error) {
	if value == "" {
		return text{}, false, nil
	}
	if err := json.Unmarshal([]byte(value), &t); err != nil {
		return text{}, false, fmt.Errorf("read record: %w", newerOr(err, value))
	}
	switch {
	case t.Node != node:
		return text{}, false, nil
	case t.Schema > Schema:
		return text{}, false, fmt.Errorf("read record: %w", &NewerError{t.Schema})
	case t.Schema < 0:
		return text{}, false, fmt.Errorf("read record: schema is %d; it counts from 0", t.Schema)
	}
	return t, true, nil
}

// newerOr is why a text cannot be read: a newer version may write other kinds of values.
func newerOr(err error, value string) error {
	var t struct {
		Schema int64 `json:"schema"`
	}
	if json.Unmarshal([]byte(value), &t) == nil && t.Schema > Schema {
		return &NewerError{t.Schema}
	}
	return err
}

func (t text) packages() (out map[string]Package, err error) {
	if len(t.Packages) == 0 {
		return nil, nil
	}
	return out, json.Unmarshal(t.Packages, &out)
}

// Encode is the annotation value of a record. Equal records have equal values.
func Encode(r Record) string {
	return string(encoded(numbered{Schema, r}))
}

// numbered is a record as it is written.
type numbered struct {
	Schema int `json:"schema"`
	Record
}

// Annotations are the node annotations that a record stands for: our own record and NVIDIA's mirrors of it.
func Annotations(nodeWright string, r Record, status nwv1.Status, version string) map[string]string {
	return map[string]string{
		fleetv1.RecordKey(nodeWright): Encode(r),
		nwv1.NodeStateKey(nodeWright): nodeState(r),
		nwv1.StatusKey(nodeWright):    string(status),
		nwv1.VersionKey(nodeWright):   version,
	}
}

// packageStatus is one entry of NVIDIA's nodeState, whose shape has been frozen since its v0.7.5.
type packageStatus struct {
	Name         string     `json:"name"`
	Version      string     `json:"version"`
	Image        string     `json:"image"`
	ContainerSHA string     `json:"containerSHA,omitempty"`
	Stage        nwv1.Stage `json:"stage"`
	State        nwv1.State `json:"state"`
	Restarts     int32      `json:"restarts,omitempty"`
}

func nodeState(r Record) string {
	entries := make(map[string]packageStatus, len(r.Packages))
	for name, p := range r.Packages {
		if p.Version == "" || p.Stage == "" {
			continue // nothing was started yet: absent, in NVIDIA's words
		}
		entries[nwv1.NodeStateEntry(name, p.Version)] = packageStatus{
			Name: name, Version: p.Version, Image: p.Image, ContainerSHA: p.Digest,
			Stage: p.Stage, State: p.State, Restarts: p.Failures,
		}
	}
	data, err := json.Marshal(entries)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("write node state: %v", err))
	}
	return string(data)
}
