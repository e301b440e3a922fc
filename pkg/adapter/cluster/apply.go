package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Applier writes a Fleet's objects with server-side apply and deletes those that left its repository. One Fleet at a time:
// two that claim the same new object must see each other.
type Applier struct {
	reader client.Reader
	writer client.Writer
	turn   chan struct{}
	// account that writes, if it is not the process's own.
	account types.NamespacedName
}

// NewApplier prepares an Applier. The reader must read the API server itself and no cache.
func NewApplier(reader client.Reader, writer client.Writer) *Applier {
	return &Applier{reader: reader, writer: writer, turn: make(chan struct{}, 1)}
}

// As is the Applier that writes with the rights of a service account. It takes turns with the one that it was made from, which
// also reads for it: what is there is compared with the reconciler's own eyes.
func (a *Applier) As(account types.NamespacedName, writer client.Writer) *Applier {
	return &Applier{reader: a.reader, writer: writer, turn: a.turn, account: account}
}

func (a *Applier) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.turn <- struct{}{}:
		return func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, &report.Failure{Reason: report.ReasonApplyFailed, Message: "apply of another Fleet took too long: " + ctx.Err().Error()}
	}
}

// item is one object on its way into the cluster.
type item struct {
	want *unstructured.Unstructured
	live *unstructured.Unstructured // nil: it does not exist
	was  bool                       // it is in the inventory at the applied revision: if it is gone, someone deleted it
	body []byte
	diff []string // fields that the write would change
}

// Apply makes the objects of a Fleet what the revision says. First everything that differs goes through a dry run with strict
// field validation; unless all of it passes, nothing is written and the findings say why. Then Packages are written, then
// DeploymentPolicies, then NodeWrights, so that nobody refers to what is not there yet; what is right already is not touched.
// The error is a *report.Failure; what was written before it is in the result.
func (a *Applier) Apply(ctx context.Context, fleet *fleetv1.Fleet, revision string, objects []*unstructured.Unstructured) (report.Applied, error) {
	leave, err := a.enter(ctx)
	if err != nil {
		return report.Applied{}, err
	}
	defer leave()
	var out report.Applied
	var pending []*item
	for _, object := range inOrder(objects) {
		it, err := a.look(ctx, fleet, object, revision)
		if err != nil {
			return out, err
		}
		if it.settled() {
			continue
		}
		if f, err := a.dryRun(ctx, it); err != nil {
			return out, err
		} else if f != nil {
			out.Findings = append(out.Findings, *f)
		}
		if it.live == nil || len(it.diff) > 0 {
			pending = append(pending, it)
		}
	}
	if len(out.Findings) > 0 {
		return out, nil
	}
	return a.write(ctx, out, pending)
}

func (a *Applier) write(ctx context.Context, out report.Applied, pending []*item) (report.Applied, error) {
	for _, it := range pending {
		if _, err := a.send(ctx, it); err != nil {
			return out, a.halfApplied(out.Changes, len(pending), it, err)
		}
		out.Changes = append(out.Changes, it.change())
	}
	return out, nil
}

// halfApplied says how far an apply came.
func (a *Applier) halfApplied(done []report.Change, all int, it *item, err error) *report.Failure {
	failure := a.failed("apply", it.name(), err)
	if len(done) > 0 {
		failure.Message = fmt.Sprintf("applied %d of %d changed objects (%s), then: %s", len(done), all, report.Names(done), failure.Message)
	}
	return failure
}

// look labels the object as the Fleet's, reads what is there and checks that nobody else owns it.
func (a *Applier) look(ctx context.Context, fleet *fleetv1.Fleet, object *unstructured.Unstructured, revision string) (*item, error) {
	want, err := marked(object, fleet, revision)
	if err != nil {
		return nil, &report.Failure{Reason: report.ReasonApplyFailed, Message: err.Error(), Stalled: true}
	}
	it := &item{want: want, was: fleet.Status.LastAppliedRevision == revision && inInventory(fleet, entryOf(object))}
	if it.live, err = a.get(ctx, want); err != nil {
		return nil, unreadable(it.name(), err)
	}
	if it.live == nil {
		return it, nil
	}
	if err := a.checkOwner(ctx, fleet, it); err != nil {
		return nil, err
	}
	if it.live.GetDeletionTimestamp() != nil {
		return nil, &report.Failure{
			Reason:  report.ReasonApplyFailed,
			Message: it.name() + " is being deleted; it is applied again when it is gone",
		}
	}
	return it, nil
}

func (a *Applier) get(ctx context.Context, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := a.reader.Get(ctx, client.ObjectKeyFromObject(want), live)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return live, nil
}

// checkOwner refuses an object that another living Fleet has in its inventory. What no living Fleet claims is taken over.
func (a *Applier) checkOwner(ctx context.Context, fleet *fleetv1.Fleet, it *item) error {
	owner := ownerOf(it.live)
	if owner.Name == "" || owner == client.ObjectKeyFromObject(fleet) {
		return nil
	}
	other := &fleetv1.Fleet{}
	err := a.reader.Get(ctx, owner, other)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return unreadable("Fleet "+owner.String(), err)
	}
	if !inInventory(other, entryOf(it.live)) {
		return nil
	}
	return &report.Failure{
		Reason: report.ReasonOwnedByOther, Stalled: true,
		Message: fmt.Sprintf("%s belongs to Fleet %s; nothing was applied: take it out of one of the two paths", it.name(), owner),
	}
}

func ownerOf(object *unstructured.Unstructured) types.NamespacedName {
	labels := object.GetLabels()
	return types.NamespacedName{Namespace: labels[fleetv1.FleetNamespaceLabel], Name: labels[fleetv1.FleetNameLabel]}
}

func (a *Applier) send(ctx context.Context, it *item, opts ...client.PatchOption) (*unstructured.Unstructured, error) {
	answer := &unstructured.Unstructured{}
	answer.SetGroupVersionKind(it.want.GroupVersionKind())
	answer.SetName(it.want.GetName())
	opts = append(opts, client.FieldOwner(fleetv1.FieldManager), client.ForceOwnership, client.FieldValidation("Strict"))
	err := a.writer.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, it.body), opts...)
	return answer, err
}

func (it *item) name() string { return it.want.GetKind() + "/" + it.want.GetName() }

// settled says that the live object shows everything that would be sent.
func (it *item) settled() bool { return it.live != nil && covers(it.live.Object, it.want.Object) }

// change says what a write did to the object. The same digest at the same revision means that we had applied this before.
func (it *item) change() report.Change {
	gvk := it.want.GroupVersionKind()
	c := report.Change{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Name: it.want.GetName(), Action: report.ObjectConfigured}
	switch {
	case it.live == nil && it.was:
		c.Action = report.ObjectRecreated
	case it.live == nil:
		c.Action = report.ObjectCreated
	case it.was && unchangedMarks(it.live, it.want):
		c.Action, c.Fields = report.ObjectRestored, it.diff[:min(len(it.diff), 5)]
	}
	return c
}

// unchangedMarks says that the live object claims to be what is wanted, or that someone took the claim away.
func unchangedMarks(live, want *unstructured.Unstructured) bool {
	had, wanted := live.GetAnnotations()[fleetv1.DigestAnnotation], want.GetAnnotations()[fleetv1.DigestAnnotation]
	return had == wanted || had == ""
}

// marked is a copy of the object that names its Fleet, its revision and its own content.
func marked(object *unstructured.Unstructured, fleet *fleetv1.Fleet, revision string) (*unstructured.Unstructured, error) {
	want := object.DeepCopy()
	unstructured.RemoveNestedField(want.Object, "status")
	content, err := json.Marshal(want.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s/%s: %w", want.GetKind(), want.GetName(), err)
	}
	sum := sha256.Sum256(content)
	set := func(m map[string]string, pairs ...string) map[string]string {
		if m == nil {
			m = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	want.SetLabels(set(want.GetLabels(), fleetv1.FleetNameLabel, fleet.Name, fleetv1.FleetNamespaceLabel, fleet.Namespace))
	want.SetAnnotations(set(want.GetAnnotations(),
		fleetv1.RevisionAnnotation, revision, fleetv1.DigestAnnotation, hex.EncodeToString(sum[:8])))
	return want, nil
}

// inOrder sorts so that what is referred to comes first, then by name.
func inOrder(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	sorted := slices.Clone(objects)
	slices.SortFunc(sorted, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(kindRank(a.GetKind()), kindRank(b.GetKind())), cmp.Compare(a.GetName(), b.GetName()))
	})
	return sorted
}

func kindRank(kind string) int {
	return slices.Index([]string{fleetv1.KindPackage, nwv1.KindDeploymentPolicy, nwv1.KindNodeWright}, kind)
}

func entryOf(object *unstructured.Unstructured) string {
	return report.EntryID(object.GetNamespace(), object.GetName(), object.GroupVersionKind().Group, object.GetKind())
}

func inInventory(fleet *fleetv1.Fleet, id string) bool {
	return fleet.Status.Inventory != nil && slices.ContainsFunc(fleet.Status.Inventory.Entries,
		func(e fleetv1.InventoryEntry) bool { return e.ID == id })
}
