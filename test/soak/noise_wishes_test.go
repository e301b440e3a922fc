package soak

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
)

func (s *stage) wrightObject(name string) *nwv1.NodeWright {
	w := s.wishes[name]
	return &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: w.annotations()}, Spec: w.spec()}
}

func (s *stage) policyObject(name string) *nwv1.DeploymentPolicy {
	spec := s.policy.yielding()
	if name == policyKernel {
		spec = s.policy.kernel()
	}
	return &nwv1.DeploymentPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// update writes an object as it is wanted now, whatever stands there. One that is being deleted may be gone.
func (s *stage) update(o client.Object, set func()) {
	ctx, cancel := s.ctx()
	defer cancel()
	for {
		err := s.admin.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return
		}
		require.NoError(s.t, err)
		set()
		err = s.admin.Update(ctx, o)
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		require.True(s.t, apierrors.IsConflict(err), "%v", err)
	}
}

func (s *stage) writeWright(name string) {
	s.witness.widen(s)
	object := s.wrightObject(name)
	want := object.DeepCopy()
	s.update(object, func() {
		for _, key := range []string{nwv1.PauseAnnotation, nwv1.DisableAnnotation} {
			delete(object.Annotations, key)
		}
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		for key, value := range want.Annotations {
			object.Annotations[key] = value
		}
		object.Spec = want.Spec
	})
	s.witness.narrow(s)
}

func (s *stage) writePolicies() {
	s.witness.widen(s)
	for _, name := range []string{policyKernel, policyYield} {
		object := s.policyObject(name)
		want := object.Spec
		s.update(object, func() { object.Spec = want })
	}
	s.witness.narrow(s)
}

func (s *stage) wish() *wish { return s.wishes[s.pick(wrights)] }

// stepVersion mostly goes up, and sometimes back to an earlier one, as a git revert does.
func (s *stage) stepVersion() {
	w := s.wish()
	switch s.random.IntN(4) {
	case 0:
		w.version = max(1, w.version-1-s.random.IntN(3))
	default:
		w.version += 1 + s.random.IntN(3)
	}
	s.writeWright(w.name)
}

func (s *stage) stepConfig() {
	w := s.wish()
	w.config = s.random.IntN(5)
	s.writeWright(w.name)
}

func (s *stage) stepInterrupt() {
	w := s.wishes[wrightKernel]
	w.reboot = !w.reboot
	s.writeWright(w.name)
}

func (s *stage) stepSecond() {
	w := s.wishes[s.pick([]string{wrightBase, wrightExtra})]
	w.second = !w.second
	s.writeWright(w.name)
}

func (s *stage) stepCeiling() {
	n := int32(1 + s.random.IntN(6))
	switch s.random.IntN(6) {
	case 0:
		s.wishes[wrightBase].budget = n
		s.writeWright(wrightBase)
		return
	case 1:
		s.wishes[wrightExtra].budget = 5 * n
		s.writeWright(wrightExtra)
		return
	case 2:
		s.policy.a = n
	case 3:
		s.policy.b = n
	case 4:
		s.policy.rest = n
	case 5:
		s.policy.yield = n
	}
	s.writePolicies()
}

func (s *stage) stepPause() {
	w := s.wish()
	w.paused = !w.paused && s.random.IntN(2) == 0
	s.writeWright(w.name)
}

func (s *stage) stepDisable() {
	w := s.wish()
	w.disabled = !w.disabled && s.random.IntN(2) == 0
	s.writeWright(w.name)
}

func (s *stage) stepVerb() {
	s.ask(s.pick(wrights), []string{fleetv1.VerbRetry, fleetv1.VerbResume}[s.random.IntN(2)], fmt.Sprint(s.random.Uint32()))
}

// ask sets a verb's annotation.
func (s *stage) ask(name, verb, token string) {
	object := s.wrightObject(name)
	s.update(object, func() {
		if object.Annotations == nil {
			object.Annotations = map[string]string{}
		}
		object.Annotations[fleetv1.VerbKey(verb)] = token
	})
}

// stepRebirth deletes a NodeWright; another one comes under its name once it is gone.
func (s *stage) stepRebirth() {
	w := s.wish()
	w.dying = true
	s.deleteWright(w.name)
}

func (s *stage) deleteWright(name string) {
	ctx, cancel := s.ctx()
	defer cancel()
	object := &nwv1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(s.t, client.IgnoreNotFound(s.admin.Delete(ctx, object)))
}

// bear creates the NodeWrights that were deleted and are gone by now.
func (s *stage) bear() {
	for _, name := range wrights {
		if s.wishes[name].dying && s.gone(name) {
			s.wishes[name].dying = false
			s.create(s.wrightObject(name))
		}
	}
}

func (s *stage) gone(name string) bool {
	ctx, cancel := s.ctx()
	defer cancel()
	return apierrors.IsNotFound(s.admin.Get(ctx, client.ObjectKey{Name: name}, &nwv1.NodeWright{}))
}

func (s *stage) stepFault() {
	s.faults.set(s.pick(s.model.nodes), allFaults[s.random.IntN(len(allFaults))])
}

func (s *stage) stepMend() { s.faults.set(s.pick(s.model.nodes), "") }

func (s *stage) stepKill() {
	s.kills++
	s.size()
	s.process.kill()
	s.process = s.program.start()
}

// stepOverlap starts a successor; the one before has to see that it is deposed and end by itself, if it wants to write.
func (s *stage) stepOverlap() {
	old := s.process
	s.process = s.program.start()
	old.yield(time.Duration(s.random.IntN(3000)) * time.Millisecond)
}

// size keeps the largest figures of a process.
func (s *stage) size() {
	ctx, cancel := s.ctx()
	defer cancel()
	f, err := s.process.measure(ctx)
	if err != nil {
		return // it has only just started
	}
	s.peak = figures{max(s.peak.goroutines, f.goroutines), max(s.peak.heap, f.heap), max(s.peak.rss, f.rss)}
}

func (s *stage) stepRequests() {
	matches := []cluster.Match{
		{Verb: "patch", Resource: "nodes"}, {Verb: "create", Resource: "jobs"}, {Verb: "update", Resource: "ledgers"},
		{Verb: "create", Resource: "pods/eviction"}, {Verb: "list", Resource: "pods"}, {Verb: "patch", Resource: "nodewrights/status"},
		{Verb: "create", Resource: "configmaps"}, {Verb: "get"}, {Verb: "delete", Resource: "jobs"}, {Verb: "update"},
	}
	m, times := matches[s.random.IntN(len(matches))], 1+s.random.IntN(4)
	switch s.random.IntN(6) {
	case 0:
		s.proxy.Fail(m, 500, times)
	case 1:
		s.proxy.Fail(m, 409, times)
	case 2:
		s.proxy.Fail(m, 429, times)
	case 3:
		s.proxy.Abort(m, times)
	case 4:
		s.proxy.FailAfter(m, times)
	case 5:
		s.proxy.Delay(m, time.Duration(100+s.random.IntN(1500))*time.Millisecond, times)
	}
}

func (s *stage) stepWatches() {
	if s.random.IntN(2) == 0 {
		s.proxy.Delay(cluster.Match{Verb: "watch"}, time.Duration(s.random.IntN(2000))*time.Millisecond, 3)
	}
	s.proxy.DropWatches()
}
