package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// podsOfFailed are the pods of a Job that failed, as they ended. The watches of Jobs and of pods are two: the cache may
// show the Job's end before the pod's, or no pod at all, which would read as a pod that was lost. What the cache cannot
// show is listed live, once for each Job.
func (o *Observer) podsOfFailed(ctx context.Context, job *batchv1.Job, cached []*corev1.Pod) ([]*corev1.Pod, error) {
	if pod := newest(cached); pod != nil && podEnded(pod) {
		return cached, nil
	}
	if pods, known := o.jobs.endOf(job.UID); known {
		return pods, nil
	}
	list, err := o.client.CoreV1().Pods(o.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{batchv1.ControllerUidLabel: string(job.UID)}.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of job %s: %w", job.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, trimmedPod(&list.Items[i]))
	}
	o.jobs.keepEnd(job.UID, pods)
	return pods, nil
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

func failed(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	})
}

// endOf and keepEnd remember the live lists; stamp forgets those of Jobs that are gone.
func (v *jobViews) endOf(job types.UID) ([]*corev1.Pod, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	pods, known := v.ends[job]
	return pods, known
}

func (v *jobViews) keepEnd(job types.UID, pods []*corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ends = put(v.ends, job, pods)
}

// strays are the executions of pods whose Job is not there, the newest pod of each Job's name; a Job of that name that is
// there speaks for itself.
func strays(byJob map[types.UID][]*corev1.Pod, jobs []plan.Execution) []plan.Execution {
	byName := map[string][]*corev1.Pod{}
	for _, pods := range byJob {
		for _, pod := range pods {
			name := pod.Labels[batchv1.JobNameLabel]
			byName[name] = append(byName[name], pod)
		}
	}
	for _, e := range jobs {
		delete(byName, e.Name)
	}
	var out []plan.Execution
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if e, found := strayExecution(newest(byName[name])); found {
			out = append(out, e)
		}
	}
	return out
}

// strayExecution translates a pod of ours whose Job is not there: somebody deleted it, or took its label off. The pod may
// still be at work, and nothing may begin beside it; and if it ended well, nothing has to be run again. One that ended
// otherwise says nothing: it may have been killed with its Job.
func strayExecution(pod *corev1.Pod) (out plan.Execution, found bool) {
	if pod.Labels[fleetv1.NodeUIDLabel] == "" || pod.Status.Phase == corev1.PodFailed {
		return plan.Execution{}, false
	}
	out = plan.Execution{
		ExecutionKey: keyOfLabels(pod.Labels), Name: pod.Labels[batchv1.JobNameLabel], Node: pod.Spec.NodeName,
		Batch: int32(labelNumber(pod.Labels[fleetv1.BatchLabel])), State: plan.ExecutionRunning, Created: pod.CreationTimestamp.Time,
	}
	out.NodeWright = pod.Labels[nwv1.NameLabel]
	stages := stagesOf(out.Package, pod.Status.InitContainerStatuses)
	for _, c := range stages {
		if c.last && succeeded(statusOf(pod, c.name)) {
			out.Done = append(out.Done, c.stage)
		}
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		out.State, out.Finished = plan.ExecutionSucceeded, finishedAt(pod)
	}
	return out, true
}

// stagesOf reads the stages from the names of a pod's init containers; see stageContainers.
func stagesOf(pkg string, statuses []corev1.ContainerStatus) []stageContainer {
	names := make([]string, 0, len(statuses))
	for _, s := range statuses {
		names = append(names, s.Name)
	}
	return namedStages(pkg, names)
}

// namedStages reads stages back from the names of init containers: `<package>-<stage>` and `<package>-<stage>check`.
func namedStages(pkg string, names []string) []stageContainer {
	var out []stageContainer
	for _, container := range names {
		name, ok := strings.CutPrefix(container, pkg+"-")
		switch {
		case container == interruptContainer:
			out = append(out, stageContainer{container, nwv1.StageInterrupt, true})
		case !ok || name == initSuffix:
		case strings.HasSuffix(name, checkSuffix):
			out = append(out, stageContainer{container, nwv1.Stage(strings.TrimSuffix(name, checkSuffix)), true})
		default:
			out = append(out, stageContainer{container, nwv1.Stage(name), false})
		}
	}
	return out
}

// finishedAt is when the last container of the pod ended.
func finishedAt(pod *corev1.Pod) (last time.Time) {
	for _, s := range containerStatuses(pod) {
		if end := s.State.Terminated; end != nil && end.FinishedAt.After(last) {
			last = end.FinishedAt.Time
		}
	}
	return last
}
