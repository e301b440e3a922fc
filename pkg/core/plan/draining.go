package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// empty looks at the pods of the node and asks those that have to leave to do so. What a drain or a wait has taken is
// forgotten once the node is empty: a pod that comes later is given the whole time again.
func (t *turn) empty() bool {
	n := t.m.node
	if !n.PodsListed {
		t.p.needPods[n.Name] = true
		t.because(Draining, "", "the pods of the node are being listed")
		return false
	}
	cfg := t.v.nw.Spec.DrainConfig.Settings()
	pods := viewPods(n.Pods, protectedBy(t.v.nw), cfg, t.p.in.Settings.Namespace)
	if pods.empty() {
		t.rec.DrainSince, t.rec.WaitSince = nil, nil
		return true
	}
	t.p.wakeAt(t.p.in.Now.Add(t.p.in.Settings.DrainRetry))
	if len(pods.protected) > 0 {
		t.waitFor(pods.protected)
		return false
	}
	t.rec.WaitSince = nil
	t.keepOwn(&pods)
	t.drain(pods, cfg)
	return false
}

// waitFor waits for protected pods: nothing is asked to leave meanwhile, and the time of the drain begins anew after it.
func (t *turn) waitFor(protected []*corev1.Pod) {
	if t.v.yields() && !t.rec.Started {
		t.release()
		t.because(Yielding, podRef(protected[0]), "the node is given back to its protected pods: "+names(protected))
		return
	}
	t.rec.DrainSince = nil
	if limit := t.v.nw.Spec.WaitLimit(); limit > 0 {
		if t.rec.WaitSince == nil {
			t.rec.WaitSince = t.now()
		}
		if t.over(t.rec.WaitSince.Add(limit)) {
			t.giveUp(ProtectedPodTimeout, "protected pods were still there after "+limit.String()+": "+names(protected))
			return
		}
	}
	why := "the node waits for protected pods to finish: " + names(protected)
	t.m.heldUpBy(Blocker{Pod: names(protected), Cause: BlockedProtected, Message: why})
	t.because(ProtectedPod, podRef(protected[0]), why)
}

// keepOwn leaves the reconciler's own pod where it is if there is no other node for it: nobody would be left to give
// this one back.
func (t *turn) keepOwn(pods *drainView) {
	own := t.p.in.Own
	for _, p := range pods.evict {
		if own.Name == p.Name && own.Namespace == p.Namespace && !t.p.hasPlace(p, t.m.node) {
			pods.keep(p, BlockedOwn, "it is the reconciler itself, and no other node can take it")
			return
		}
	}
}

// drain asks for what can be asked for now.
func (t *turn) drain(pods drainView, cfg nwv1.DrainSettings) {
	if t.rec.DrainSince == nil {
		t.rec.DrainSince = t.now()
	}
	late := t.late(cfg)
	blockers := t.blockers(pods, late)
	if late && cfg.OnTimeout == nwv1.DrainSkip {
		t.giveUp(DrainTimeout, "the node was not empty after "+cfg.Timeout.String()+": "+names(pods.inTheWay())+mostly(blockers))
		return
	}
	if t.d.Evict = t.evictions(pods.evict, cfg, late && cfg.OnTimeout == nwv1.DrainForce); len(t.d.Evict) > 0 {
		t.act(ActionDrain)
	}
	t.m.heldUpBy(blockers...)
	t.becauseDraining(pods, blockers, late)
}

// late reports whether the drain has outlasted its timeout, which counts from the pass in which there were pods to be
// asked and none that is protected.
func (t *turn) late(cfg nwv1.DrainSettings) bool {
	return cfg.Timeout > 0 && t.over(t.rec.DrainSince.Add(cfg.Timeout))
}

// over reports whether an instant has come, and has the pass made again when it does.
func (t *turn) over(at time.Time) bool {
	t.p.wakeAt(at)
	return !t.p.in.Now.Before(at)
}

// giveUp ends the turn of a node that does not come free, and rolls our cordon back: its pods go on as before.
func (t *turn) giveUp(code Code, message string) {
	t.dropCordon()
	t.fail(noderecord.Failure{Reason: string(code), Message: cutEnd(message)})
}

// evictions asks the pods to leave, each at its own pace. With force, those that an eviction could not move are deleted,
// which no PodDisruptionBudget can refuse; a pod that was not asked yet is asked first.
func (t *turn) evictions(pods []*corev1.Pod, cfg nwv1.DrainSettings, force bool) []Eviction {
	var out []Eviction
	for _, p := range pods {
		answer, refused := t.m.node.Refusals[p.UID]
		forced := force && refused && answer.Kind != RefusedByThrottling
		if !t.over(answer.Again) && (!forced || answer.Deletion) {
			continue
		}
		out = append(out, Eviction{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			Delete: cfg.DisableEviction || forced, GracePeriodSeconds: graceSeconds(cfg.GracePeriod),
		})
	}
	return out
}

// blockers are the pods that the drain does not get rid of by asking, and why, by pod.
func (t *turn) blockers(pods drainView, late bool) []Blocker {
	var out []Blocker
	add := func(p *corev1.Pod, cause BlockCause, message string) {
		out = append(out, Blocker{Pod: podName(p), Cause: cause, Message: message})
	}
	for _, p := range pods.evict {
		switch answer := t.m.node.Refusals[p.UID]; answer.Kind {
		case RefusedByBudget:
			add(p, BlockedByBudget, answer.Message+t.hopeless(p))
		case RefusedByError:
			add(p, BlockedByError, answer.Message)
		case RefusedByThrottling, RefusedByNamespace:
		}
	}
	for _, b := range pods.blocked {
		add(b.pod, b.cause, podRef(b.pod)+" may not be evicted: "+b.why)
	}
	for _, p := range pods.leaving {
		switch {
		case t.isStuck(p):
			add(p, BlockedStuck, whyStuck(p))
		case late:
			add(p, BlockedByTimeout, podRef(p)+" has not left yet")
		}
	}
	return out
}

// cutEnd keeps the beginning of a sentence of ours.
func cutEnd(s string) string {
	r := []rune(s)
	if len(r) <= messageLimit {
		return s
	}
	return string(r[:messageLimit-1]) + "…"
}
