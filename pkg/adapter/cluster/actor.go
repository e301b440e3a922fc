package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Actor carries out decisions. It is safe for concurrent use, but the decisions of one node must come one after the
// other.
type Actor struct {
	client   kubernetes.Interface
	observer *Observer
	settings JobSettings
	version  string
}

// NewActor returns an Actor whose writes the observer's views are never older than. version is the program's, which
// the records carry.
func NewActor(client kubernetes.Interface, observer *Observer, settings JobSettings, version string) *Actor {
	return &Actor{client: client, observer: observer, settings: settings, version: version}
}

// Do carries out one decision, part by part in the order of its fields; what fails stops the rest. All of it is
// idempotent: after a crash the same decision may be carried out again.
func (a *Actor) Do(ctx context.Context, d plan.Decision) (report.Outcome, error) {
	var out report.Outcome
	for _, p := range d.Snapshots {
		snapshot := buildSnapshot(p, a.settings.Namespace)
		if err := a.ensureConfigMap(ctx, snapshot); err != nil {
			return out, fmt.Errorf("keep snapshot of package %s: %w", p.Name, err)
		}
	}
	node, err := a.patchNode(ctx, d, &out)
	if err != nil || out.Conflict {
		return out, err
	}
	if err := a.stop(ctx, d, &out); err != nil || out.Conflict {
		return out, err
	}
	if err := a.suspend(ctx, d); err != nil {
		return out, err
	}
	if node, err = a.confirm(ctx, d, node, &out); err != nil || out.Conflict {
		return out, err
	}
	if err := a.start(ctx, d, node, &out); err != nil {
		return out, err
	}
	return out, a.evict(ctx, d, &out)
}

// confirm looks at the node once more, in the API server and not in a cache, before anything on it is started or
// evicted. What this decision has just written needs no second look. A process that lost the lead, or whose cache lags,
// finds here that the node was uncordoned, re-created or given another turn since.
func (a *Actor) confirm(ctx context.Context, d plan.Decision, written *corev1.Node, out *report.Outcome) (*corev1.Node, error) {
	if len(d.Start)+len(d.Evict) == 0 {
		return written, nil
	}
	node := written
	if node == nil {
		var err error
		node, err = a.client.CoreV1().Nodes().Get(ctx, d.Node, metav1.GetOptions{})
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get node %s: %w", d.Node, err)
		}
		if err != nil || node.UID != d.NodeUID {
			out.Conflict, out.Detail = true, "the node is gone, or another one has its name"
			return nil, nil
		}
		if !recordStands(node, d) {
			out.Conflict, out.Detail = true, errOutdated{d.NodeWright}.Error()
			return nil, nil
		}
	}
	if needsCordon(d) && !node.Spec.Unschedulable {
		out.Conflict, out.Detail = true, "the node is not cordoned any more"
	}
	return node, nil
}

// needsCordon: nothing is evicted and no interrupt begins on a node that takes new pods.
func needsCordon(d plan.Decision) bool {
	return len(d.Evict) > 0 || slices.ContainsFunc(d.Start, func(s plan.ExecutionSpec) bool {
		return s.Phase == plan.PhaseInterrupt
	})
}

// patchNode writes the record and the cordon. It returns the node as it is now in full, or nil if it was not written.
func (a *Actor) patchNode(ctx context.Context, d plan.Decision, out *report.Outcome) (*corev1.Node, error) {
	node, err := a.observer.latestNode(ctx, d.Node, d.NodeUID)
	if err != nil {
		return nil, err
	}
	if node == nil {
		out.Conflict, out.Detail = true, "the node is gone, or another one has its name"
		return nil, nil
	}
	ops, err := buildPatch(node, d, a.version)
	if outdated := (errOutdated{}); errors.As(err, &outdated) {
		out.Conflict, out.Detail = true, outdated.Error()
		return nil, nil
	}
	if err != nil || ops == nil {
		return nil, err
	}
	data, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("write patch of node %s: %w", d.Node, err)
	}
	written, err := a.client.CoreV1().Nodes().Patch(ctx, d.Node, types.JSONPatchType, data,
		metav1.PatchOptions{FieldManager: fleetv1.FieldManager})
	if isConflict(err) {
		out.Conflict, out.Detail = true, err.Error()
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("patch node %s: %w", d.Node, err)
	}
	a.observer.wroteNode(written)
	out.Written = true
	return written, nil
}

// isConflict reports whether a write came too late: a failed test of a JSON patch (422 without a cause), a conflict
// (409), or an object that is gone (404). A 422 with causes is a refusal of the content, which no retry cures.
func isConflict(err error) bool {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return true
	}
	if !apierrors.IsInvalid(err) {
		return false
	}
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Details == nil || len(status.Status().Details.Causes) == 0)
}

// stop deletes Jobs that have not ended. One that has ended since the decision stays, and the rest of the decision is
// dropped: its result would be lost, and its name would be free for a process that still sees it unfinished.
func (a *Actor) stop(ctx context.Context, d plan.Decision, out *report.Outcome) error {
	for _, name := range d.Stop {
		ended, err := a.stopOne(ctx, name)
		if err != nil {
			return fmt.Errorf("delete job %s: %w", name, err)
		}
		if ended {
			out.Conflict, out.Detail = true, "job "+name+" has ended since the decision"
			return nil
		}
		out.Stopped = append(out.Stopped, name)
	}
	return nil
}

// stopOne deletes in the foreground, so that the Job is seen until its pod has ended, and only in the version that it has
// looked at.
func (a *Actor) stopOne(ctx context.Context, name string) (ended bool, err error) {
	jobs := a.client.BatchV1().Jobs(a.settings.Namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		job, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ended = Execution(job, nil).Ended(); ended {
			return nil
		}
		foreground := metav1.DeletePropagationForeground
		return jobs.Delete(ctx, name, metav1.DeleteOptions{
			PropagationPolicy: &foreground,
			Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
		})
	})
	return ended, client.IgnoreNotFound(err)
}

// suspend pauses Jobs and lets them go on. A Job that has ended or is gone has nothing to pause.
func (a *Actor) suspend(ctx context.Context, d plan.Decision) error {
	return errors.Join(
		a.suspendAll(ctx, d.Suspend, `{"spec":{"suspend":true}}`),
		a.suspendAll(ctx, d.Unsuspend, `{"spec":{"suspend":false}}`))
}

func (a *Actor) suspendAll(ctx context.Context, jobs []string, patch string) error {
	var errs []error
	for _, name := range jobs {
		_, err := a.client.BatchV1().Jobs(a.settings.Namespace).Patch(ctx, name, types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{FieldManager: fleetv1.FieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("suspend job %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// start creates the executions, unless one of an earlier round is unfinished.
func (a *Actor) start(ctx context.Context, d plan.Decision, node *corev1.Node, out *report.Outcome) error {
	if len(d.Start) == 0 {
		return nil
	}
	if d.CheckEarlier {
		earlier, err := a.unfinishedBefore(ctx, d.Start[0])
		if err != nil || earlier != "" {
			out.EarlierRunning = earlier
			return err
		}
	}
	for _, spec := range d.Start {
		if err := a.startOne(ctx, spec, node); err != nil {
			return err
		}
		out.Started = append(out.Started, JobName(spec.ExecutionKey))
	}
	return nil
}

func (a *Actor) startOne(ctx context.Context, spec plan.ExecutionSpec, node *corev1.Node) error {
	if len(spec.Definition.ConfigMap) > 0 {
		if err := a.ensureConfigMap(ctx, buildConfigMap(spec, a.settings.Namespace)); err != nil {
			return fmt.Errorf("write configuration of package %s: %w", spec.Definition.Name, err)
		}
	}
	job := BuildJob(spec, node, a.settings)
	created, err := a.client.BatchV1().Jobs(job.Namespace).Create(ctx, job,
		metav1.CreateOptions{FieldManager: fleetv1.FieldManager})
	if apierrors.IsAlreadyExists(err) { // by an earlier pass whose answer was lost
		return a.adopt(ctx, spec.ExecutionKey, job.Name)
	}
	if err != nil {
		return fmt.Errorf("create job %s: %w", job.Name, err)
	}
	a.observer.wroteJob(created.Name, created.ResourceVersion)
	return nil
}

// adopt looks at the Job that has the name of an execution. If somebody took the label off by which the caches find it, the
// label is put back.
func (a *Actor) adopt(ctx context.Context, key plan.ExecutionKey, name string) error {
	job, err := a.client.BatchV1().Jobs(a.settings.Namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // deleted since; the next pass asks for it again
	}
	if err != nil {
		return fmt.Errorf("get job %s: %w", name, err)
	}
	if executionKey(job) != key {
		return fmt.Errorf("job %s is in the way: it is not the execution of that name; delete it", name)
	}
	if !isOurs(job) {
		job, err = a.client.BatchV1().Jobs(a.settings.Namespace).Patch(ctx, name, types.MergePatchType, ourLabel,
			metav1.PatchOptions{FieldManager: fleetv1.FieldManager})
		if err != nil {
			return fmt.Errorf("label job %s: %w", name, err)
		}
	}
	a.observer.wroteJob(name, job.ResourceVersion)
	return nil
}

// ourLabel is a merge patch that puts the label back by which the caches find what is ours.
var ourLabel = []byte(`{"metadata":{"labels":{"` + fleetv1.ManagedByLabel + `":"` + fleetv1.FieldManager + `"}}}`)

// unfinishedBefore names an unfinished execution of an earlier round on the node, by a live list.
func (a *Actor) unfinishedBefore(ctx context.Context, spec plan.ExecutionSpec) (string, error) {
	jobs, err := a.client.BatchV1().Jobs(a.settings.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{
			fleetv1.NodeUIDLabel: string(spec.NodeUID), fleetv1.NodeWrightUIDLabel: string(spec.NodeWrightUID),
		}.String(),
	})
	if err != nil {
		return "", fmt.Errorf("list jobs of node %s: %w", spec.Node, err)
	}
	for i := range jobs.Items {
		e := Execution(&jobs.Items[i], nil)
		if !e.Ended() && e.Round < spec.Round {
			return e.Name, nil
		}
	}
	return "", nil
}

// Strand suspends Jobs: what has not begun on a node never begins, and the Job stays to be seen.
func (a *Actor) Strand(ctx context.Context, jobs []string) error {
	return a.suspendAll(ctx, jobs, `{"spec":{"suspend":true}}`)
}

// Discard deletes Jobs and their pods. One that is gone is no error, and one that cannot be deleted keeps none of the
// others.
func (a *Actor) Discard(ctx context.Context, jobs []string) error {
	background := metav1.DeletePropagationBackground
	var errs []error
	for _, name := range jobs {
		err := a.client.BatchV1().Jobs(a.settings.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete job %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
