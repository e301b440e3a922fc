package history

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// interrupt is the container that interrupts its node.
const interrupt = "interrupt"

// job is invariant 6: one execution at a time for a node and package, and none beside an interrupt of the NodeWright.
func (c *checker) job(j *batchv1.Job, deleted bool) {
	if j.Namespace != c.rules.Namespace || j.Labels[fleetv1.NodeUIDLabel] == "" {
		return
	}
	_, known := c.jobs[j.UID]
	c.jobs[j.UID] = j
	if deleted {
		delete(c.jobs, j.UID)
		return
	}
	if known {
		return
	}
	n := c.nodeNamed(j.Annotations[fleetv1.NodeAnnotation])
	if n != nil {
		c.boots[j.UID] = n.Status.NodeInfo.BootID
	}
	for _, other := range c.jobs {
		if other.UID == j.UID || ended(other) || owner(other) != owner(j) || c.rebooted(other, n) {
			continue
		}
		if subject(other) == subject(j) || subject(other) == interrupt || subject(j) == interrupt {
			c.breach("6: Job %s began on node %s while Job %s was not over", subject(j), j.Annotations[fleetv1.NodeAnnotation], subject(other))
		}
	}
	if subject(j) == interrupt {
		c.beforeInterrupt(j.Annotations[fleetv1.NodeAnnotation], j.Labels[nwv1.NameLabel])
	}
}

// rebooted says whether the node runs from another boot than the one in which the Job began: whatever ran then is over,
// though nobody may have said so yet.
func (c *checker) rebooted(j *batchv1.Job, n *corev1.Node) bool {
	return n != nil && c.boots[j.UID] != n.Status.NodeInfo.BootID
}

func owner(o metav1.Object) string {
	l := o.GetLabels()
	return l[fleetv1.NodeUIDLabel] + "/" + l[fleetv1.NodeWrightUIDLabel]
}

// subject is what an execution is for: a package, or the interrupt.
func subject(o metav1.Object) string {
	if o.GetLabels()[nwv1.InterruptLabel] != "" {
		return interrupt
	}
	return o.GetLabels()[fleetv1.PackageNameLabel]
}

func ended(j *batchv1.Job) bool {
	for _, condition := range j.Status.Conditions {
		if condition.Status == corev1.ConditionTrue &&
			(condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return true
		}
	}
	return false
}

func (c *checker) pod(p *corev1.Pod, deleted bool) {
	before := c.pods[p.UID]
	c.pods[p.UID] = p
	if !deleted && p.Namespace == c.rules.Namespace && p.Labels[fleetv1.NodeUIDLabel] != "" {
		c.containers(p)
	}
	if p.Namespace != c.rules.Namespace && p.DeletionTimestamp != nil && before != nil && before.DeletionTimestamp == nil {
		c.leaves(p)
	}
	if deleted {
		delete(c.pods, p.UID)
	}
}

// leaves is invariants 2 and 3, for a pod whose end was just asked for.
func (c *checker) leaves(p *corev1.Pod) {
	if n := c.nodeNamed(p.Spec.NodeName); n != nil && !n.Spec.Unschedulable {
		c.breach("2: pod %s was sent away from node %s before its cordon", p.Name, n.Name)
	}
	for name, selector := range c.rules.Protected {
		if selector.Matches(labels.Set(p.Labels)) && !finished(p) {
			c.breach("3: pod %s, which %s protects, was sent away", p.Name, name)
		}
	}
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// containers watches what runs: invariants 4 and 6.
func (c *checker) containers(p *corev1.Pod) {
	for _, status := range p.Status.InitContainerStatuses {
		key := string(p.UID) + "/" + status.Name
		if status.State.Running != nil && !c.begun[key] {
			c.begun[key] = true
			c.begins(p, status.Name)
		}
		if end := status.State.Terminated; end != nil && end.ExitCode == 0 && c.isLast(p, status.Name) {
			c.done[stageKey(p, status.Name)] = p.UID
		}
	}
}

func (c *checker) begins(p *corev1.Pod, container string) {
	if pod, again := c.done[stageKey(p, container)]; again && pod != p.UID {
		c.breach("6: %s succeeded on node %s and began again in the round", container, p.Spec.NodeName)
	}
	if container == interrupt {
		c.beforeInterrupt(p.Spec.NodeName, p.Labels[nwv1.NameLabel])
	}
}

// isLast says whether the success of the container is that of its stage: its check, or the interrupt itself.
func (c *checker) isLast(p *corev1.Pod, container string) bool {
	return container == interrupt || strings.HasSuffix(container, "check")
}

// stageKey names a stage (by any of its containers) of a package on a node in a round.
func stageKey(p *corev1.Pod, container string) string {
	l := p.Labels
	return strings.Join([]string{
		owner(p), l[fleetv1.RoundLabel], subject(p), l[fleetv1.Group+"/wave"], strings.TrimSuffix(container, "check"),
	}, "/")
}

// beforeInterrupt is invariants 3 and 4, at the moment at which an interrupt is created or begins.
func (c *checker) beforeInterrupt(node, nodeWright string) {
	n := c.nodeNamed(node)
	if n == nil {
		return
	}
	if !n.Spec.Unschedulable {
		c.breach("4: an interrupt began on node %s, which is not cordoned", node)
	}
	for _, p := range c.pods {
		if p.Spec.NodeName != node || finished(p) || p.Namespace == c.rules.Namespace || stays(p) {
			continue
		}
		if selector := c.rules.Protected[nodeWright]; selector != nil && selector.Matches(labels.Set(p.Labels)) {
			c.breach("3: an interrupt began on node %s, where the protected pod %s is", node, p.Name)
			continue
		}
		c.breach("4: an interrupt began on node %s, where pod %s still is", node, p.Name)
	}
}

// stays: pods that no drain waits for.
func stays(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	controller := metav1.GetControllerOf(p)
	return controller != nil && controller.Kind == "DaemonSet"
}

// Ran lists, by node name, what succeeded there and in which order, as `<nodewright> r<round> <container>`, and how often the
// node was rebooted.
func Ran(changes []Change) (stages map[string][]string, reboots map[string]int) {
	stages, reboots = map[string][]string{}, map[string]int{}
	boots, seen := map[string]string{}, map[string]bool{}
	for _, change := range changes {
		switch o := change.Object.(type) {
		case *corev1.Node:
			id := o.Status.NodeInfo.BootID
			if before := boots[string(o.UID)]; before != "" && id != "" && before != id {
				reboots[o.Name]++
			}
			if id != "" {
				boots[string(o.UID)] = id
			}
		case *corev1.Pod:
			for _, status := range o.Status.InitContainerStatuses {
				key := string(o.UID) + status.Name
				if end := status.State.Terminated; end != nil && end.ExitCode == 0 && !seen[key] && o.Labels[fleetv1.NodeUIDLabel] != "" {
					seen[key] = true
					stages[o.Spec.NodeName] = append(stages[o.Spec.NodeName],
						o.Labels[nwv1.NameLabel]+" r"+o.Labels[fleetv1.RoundLabel]+" "+status.Name)
				}
			}
		}
	}
	return stages, reboots
}
