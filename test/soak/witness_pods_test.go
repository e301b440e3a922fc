package soak

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// podWitness looks at the executions: one at a time for each node and package, and no stage that succeeded again in a round.
type podWitness struct {
	now     time.Time
	running map[string]map[types.UID]string // by whose work it is: the pods at work
	done    map[string]doneBy               // by stage and round
	told    map[string]bool                 // stages whose breach was said
	stages  int
}

// doneBy is the pod that did a stage first.
type doneBy struct {
	uid       types.UID
	job, name string
	at        time.Time
}

func newPodWitness() podWitness {
	return podWitness{running: map[string]map[types.UID]string{}, done: map[string]doneBy{}, told: map[string]bool{}}
}

func (*podWitness) see(e watch.Event) func(*witness) {
	p := e.Object.(*corev1.Pod)
	labels := p.Labels
	package_ := labels[fleetv1.PackageNameLabel]
	whose := strings.Join([]string{labels[fleetv1.NodeUIDLabel], labels[nwv1.NameLabel], package_}, "/")
	round := strings.Join([]string{labels[fleetv1.NodeWrightUIDLabel], labels[fleetv1.NodeUIDLabel], labels[fleetv1.RoundLabel], package_}, "/")
	uid, name, working := p.UID, p.Name+" on "+p.Spec.NodeName, e.Type != watch.Deleted && atWork(p)
	done, job := stagesDone(p), labels[batchv1.JobNameLabel]
	return func(w *witness) {
		w.judgeWork(whose, uid, name, working)
		for _, stage := range done {
			w.judgeStage(round+"/"+stage, doneBy{uid, job, name, w.pods.now})
		}
	}
}

// atWork: a container runs.
func atWork(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for _, c := range p.Status.InitContainerStatuses {
		if c.State.Running != nil {
			return true
		}
	}
	return false
}

// stagesDone are the stages whose check succeeded.
func stagesDone(p *corev1.Pod) []string {
	var out []string
	for _, c := range p.Status.InitContainerStatuses {
		if t := c.State.Terminated; t != nil && t.ExitCode == 0 && strings.HasSuffix(c.Name, "check") {
			out = append(out, c.Name)
		}
	}
	return out
}

func (w *witness) judgeWork(whose string, uid types.UID, name string, working bool) {
	pods := w.pods.running[whose]
	if !working {
		delete(pods, uid)
		return
	}
	if pods == nil {
		pods = map[types.UID]string{}
		w.pods.running[whose] = pods
	}
	pods[uid] = name
	if len(pods) > 1 {
		w.breach("two executions at once for %s: %v", whose, pods)
	}
}

// judgeStage wants a stage done once in a round. A second pod of the same Job is what a pause leaves behind: the Job is
// suspended, its pod ends, and it begins anew after the pause.
func (w *witness) judgeStage(key string, by doneBy) {
	first, known := w.pods.done[key]
	if !known {
		w.pods.stages++
		w.pods.done[key] = by
		return
	}
	if first.uid != by.uid && first.job != by.job && !w.pods.told[key] {
		w.pods.told[key] = true
		w.breach("a stage that succeeded ran again in its round: %s: pod %s at %s, pod %s at %s",
			key, first.name, first.at.Format(time.StampMilli), by.name, by.at.Format(time.StampMilli))
	}
}
