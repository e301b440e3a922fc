package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// executions translates our Jobs and their pods, and pods of ours whose Job is not there. changes is when the first of them
// looks different although nothing happens to it; zero: never.
func (o *Observer) executions(ctx context.Context, now time.Time) (found []plan.Execution, changes time.Time, err error) {
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	if err := o.cached.List(ctx, jobs, client.InNamespace(o.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, changes, fmt.Errorf("list jobs: %w", err)
	}
	if err := o.cached.List(ctx, pods, client.InNamespace(o.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, changes, fmt.Errorf("list execution pods: %w", err)
	}
	byJob := podsByJob(pods.Items)
	out := make([]plan.Execution, 0, len(jobs.Items))
	uids := make([]types.UID, 0, len(jobs.Items))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		own := byJob[job.UID]
		delete(byJob, job.UID)
		if job.Labels[fleetv1.NodeUIDLabel] == "" {
			continue // not an execution
		}
		if failed(job) {
			if own, err = o.podsOfFailed(ctx, job, own); err != nil {
				return nil, changes, err
			}
		}
		e := Execution(job, own)
		e, at := untouched(e, own, o.namespace, now)
		if !at.IsZero() && (changes.IsZero() || at.Before(changes)) {
			changes = at
		}
		out = append(out, e)
		uids = append(uids, job.UID)
	}
	o.jobs.stamp(out, uids, now)
	return append(out, strays(byJob, out)...), changes, nil
}

// podsByJob groups pods by the Job that controls them; those that none controls have the empty UID.
func podsByJob(pods []corev1.Pod) map[types.UID][]*corev1.Pod {
	out := map[types.UID][]*corev1.Pod{}
	for i := range pods {
		var job types.UID
		if owner := metav1.GetControllerOf(&pods[i]); owner != nil {
			job = owner.UID
		}
		out[job] = append(out[job], &pods[i])
	}
	return out
}

// jobViews remembers when the trouble of a running execution was first seen: the API does not say. After a restart the
// tolerance of a trouble begins anew. It is safe for concurrent use.
type jobViews struct {
	mu      sync.Mutex
	trouble map[types.UID]troubleSeen
	ends    map[types.UID][]*corev1.Pod // see podsOfFailed
}

type troubleSeen struct {
	code  plan.Code
	since time.Time
}

// stamp sets TroubleSince and forgets what is over.
func (v *jobViews) stamp(executions []plan.Execution, uids []types.UID, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next, ends := map[types.UID]troubleSeen{}, map[types.UID][]*corev1.Pod{}
	for i := range executions {
		if pods, known := v.ends[uids[i]]; known {
			ends[uids[i]] = pods
		}
		if executions[i].Trouble == "" {
			continue
		}
		seen, ok := v.trouble[uids[i]]
		if !ok || seen.code != executions[i].Trouble {
			seen = troubleSeen{executions[i].Trouble, now}
		}
		next[uids[i]] = seen
		executions[i].TroubleSince = seen.since
	}
	v.trouble, v.ends = next, ends
}

// snapshotViews decodes each snapshot once; they are immutable. It is safe for concurrent use.
type snapshotViews struct {
	mu   sync.Mutex
	seen map[types.UID]desired.Package
}

// readSnapshots gives the stored definitions. One that cannot be read is left out, as if it were not there.
func (o *Observer) readSnapshots(ctx context.Context, in *plan.Input) error {
	list := &corev1.ConfigMapList{}
	if err := o.cached.List(ctx, list, client.InNamespace(o.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	o.snapshots.mu.Lock()
	defer o.snapshots.mu.Unlock()
	next := make(map[types.UID]desired.Package, len(list.Items))
	in.Snapshots = make(map[string]desired.Package, len(list.Items))
	for i := range list.Items {
		cm := &list.Items[i]
		if cm.Labels[fleetv1.SnapshotLabel] == "" {
			continue // a package's configuration
		}
		p, ok := o.snapshots.seen[cm.UID]
		if !ok {
			var err error
			if p, err = readSnapshot(cm); err != nil {
				continue
			}
		}
		next[cm.UID] = p
		in.Snapshots[cm.Labels[fleetv1.SnapshotLabel]] = p
	}
	o.snapshots.seen = next
	return nil
}

// snapshotKey is the key of a snapshot's data.
const snapshotKey = "package.json"

func readSnapshot(cm *corev1.ConfigMap) (desired.Package, error) {
	var p desired.Package
	if err := json.Unmarshal([]byte(cm.Data[snapshotKey]), &p); err != nil {
		return desired.Package{}, fmt.Errorf("read snapshot %s: %w", cm.Name, err)
	}
	p.KeyHashes = desired.KeyHashes(p.ConfigMap)
	p.SnapshotHash = cm.Labels[fleetv1.SnapshotLabel]
	return p, nil
}
