package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
)

// ChangeAction is what was done to one object of a Fleet.
type ChangeAction string

// Actions.
const (
	// ObjectCreated: the object did not exist.
	ObjectCreated ChangeAction = "created"
	// ObjectConfigured: the object was changed to what a new revision or another Fleet says.
	ObjectConfigured ChangeAction = "configured"
	// ObjectRestored: someone's change was put back.
	ObjectRestored ChangeAction = "restored"
	// ObjectRecreated: someone had deleted the object.
	ObjectRecreated ChangeAction = "recreated"
	// ObjectPruned: the object left the repository and was deleted.
	ObjectPruned ChangeAction = "pruned"
	// ObjectKept: the object left the repository and stays, for the reason in Note.
	ObjectKept ChangeAction = "kept"
)

// Change is what was done to one object.
type Change struct {
	Action ChangeAction
	// Group, Version, Kind and Name identify the object.
	Group, Version, Kind, Name string
	// Fields that were put back, the first few.
	Fields []string
	// Note says why an object was kept.
	Note string
}

// Object is Kind/name.
func (c Change) Object() string { return c.Kind + "/" + c.Name }

// Drift says that someone else's change was undone.
func (c Change) Drift() bool { return c.Action == ObjectRestored || c.Action == ObjectRecreated }

// String words the change for an event.
func (c Change) String() string {
	switch c.Action {
	case ObjectRestored:
		if len(c.Fields) > 0 {
			return fmt.Sprintf("%s was changed outside git; put back: %s", c.Object(), strings.Join(c.Fields, ", "))
		}
		return c.Object() + " was changed outside git and is put back"
	case ObjectRecreated:
		return c.Object() + " was deleted outside git and is created again"
	case ObjectKept:
		return c.Object() + " left the repository and is kept: " + c.Note
	case ObjectPruned:
		return c.Object() + " left the repository and is deleted"
	case ObjectCreated, ObjectConfigured:
	}
	return c.Object() + " " + string(c.Action)
}

// Applied is what came of an apply. With findings nothing was written.
type Applied struct {
	// Changes in the order in which they were made; objects that were right already are not in it.
	Changes []Change
	// Findings of the API server's dry run.
	Findings []finding.Finding
}

// Names lists the changed objects.
func Names(changes []Change) string {
	var names []string
	for _, c := range changes {
		names = append(names, c.Object())
	}
	return strings.Join(names, ", ")
}

// EntryID is how an inventory names an object; the namespace is empty for cluster-scoped kinds.
func EntryID(namespace, name, group, kind string) string {
	return strings.Join([]string{namespace, name, group, kind}, "_")
}

// ParseEntryID is the inverse of EntryID. Kubernetes names contain no underscore.
func ParseEntryID(id string) (namespace, name, group, kind string, ok bool) {
	parts := strings.Split(id, "_")
	if len(parts) != 4 {
		return "", "", "", "", false
	}
	return parts[0], parts[1], parts[2], parts[3], true
}

// MergeInventory holds the entries of both, sorted by id. Where both have one, that of b counts.
func MergeInventory(a, b []fleetv1.InventoryEntry) []fleetv1.InventoryEntry {
	out := append(WithoutEntries(a, b), b...)
	slices.SortFunc(out, func(x, y fleetv1.InventoryEntry) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// WithoutEntries are the entries of a whose id is not in b.
func WithoutEntries(a, b []fleetv1.InventoryEntry) []fleetv1.InventoryEntry {
	var out []fleetv1.InventoryEntry
	for _, e := range a {
		if !slices.ContainsFunc(b, func(o fleetv1.InventoryEntry) bool { return o.ID == e.ID }) {
			out = append(out, e)
		}
	}
	return out
}
