package soak

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/test/loop"
)

// silence ends the noise: everything that was disturbed is mended, and what people want stays as it is.
func (s *stage) silence() {
	s.proxy.Clear()
	s.faults.clear()
	ctx, cancel := s.ctx()
	defer cancel()
	for _, n := range s.model.nodes {
		s.powerOn(n)
		require.NoError(s.t, s.kubelet.SetReady(ctx, n, true))
		if s.model.cordon[n] {
			s.uncordon(n)
		}
		s.patchNode(n, `{"metadata":{"labels":{%q:null}}}`, nwv1.IgnoreLabel) // it keeps a node under way as it is
	}
	for i := len(s.model.pods) - 1; i >= 0; i-- { // training ends; what may be evicted stays
		if s.model.pods[i].training {
			s.endPod(i)
		}
	}
	if s.model.pdb {
		s.stepBudget()
	}
	require.Eventually(s.t, func() bool {
		s.bear()
		return !slices.ContainsFunc(wrights, func(n string) bool { return s.wishes[n].dying })
	}, s.long(), 100*time.Millisecond, "deleted NodeWrights go")
	for _, name := range wrights {
		w := s.wishes[name]
		w.paused, w.disabled = false, false
		s.writeWright(name)
	}
}

// long is how long a convergence may take: it grows with the number of nodes.
func (s *stage) long() time.Duration { return 4*time.Minute + time.Duration(s.o.nodes)*4*time.Second }

// final are the reasons of nodes that nobody works on any more until somebody changes something.
var final = []plan.Code{
	plan.Complete, plan.PackageFailed, plan.StageTimeout, plan.InterruptFailed, plan.Halted, plan.WaitingForPriority,
	plan.WaitingForSlot, plan.WaitingForClusterBudget, plan.Ignored, plan.TaintNotTolerated,
}

// ended says that a NodeWright is complete, or stopped as it must: by failures that a retry or another content mends.
func ended(nw *nwv1.NodeWright) error {
	if nw.Status.ObservedGeneration != nw.Generation {
		return fmt.Errorf("%s: status of generation %d, not %d", nw.Name, nw.Status.ObservedGeneration, nw.Generation)
	}
	for _, r := range nw.Status.Reasons {
		if !slices.Contains(final, plan.Code(r.Reason)) {
			return fmt.Errorf("%s: %d nodes %s: %s (%s)", nw.Name, r.Count, r.Reason, r.Message, strings.Join(r.Nodes, " "))
		}
	}
	return nil
}

func completed(nw *nwv1.NodeWright) error {
	if nw.Status.Status != nwv1.StatusComplete || nw.Status.ObservedGeneration != nw.Generation {
		return fmt.Errorf("%s is %s (%s): %v", nw.Name, nw.Status.Status, nw.Status.CompleteNodes, nw.Status.Reasons)
	}
	return nil
}

// await polls until every NodeWright passes.
func (s *stage) await(what string, passes func(*nwv1.NodeWright) error) {
	s.t.Helper()
	begin, last := time.Now(), error(nil)
	for time.Since(begin) < s.long() {
		if last = s.every(passes); last == nil {
			s.t.Logf("%s after %s", what, time.Since(begin).Round(time.Second))
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	s.t.Fatalf("seed %d: not %s after %s: %v", s.o.seed, what, s.long(), last)
}

func (s *stage) every(passes func(*nwv1.NodeWright) error) error {
	ctx, cancel := s.ctx()
	defer cancel()
	list := &nwv1.NodeWrightList{}
	require.NoError(s.t, s.admin.List(ctx, list))
	require.Len(s.t, list.Items, len(wrights))
	for i := range list.Items {
		if err := passes(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// mend gives every NodeWright a new version, so that what failed and what halted starts anew, and more room.
func (s *stage) mend() {
	room := int32(max(6, s.o.nodes/4))
	s.policy = policyWish{a: room, b: room, rest: room, yield: room}
	s.writePolicies()
	for _, name := range wrights {
		w := s.wishes[name]
		w.version += 10
		w.patient = true
		switch name {
		case wrightBase:
			w.budget = room
		case wrightExtra:
			w.budget = 100
		}
		s.writeWright(name)
	}
}

// nothingLeft wants no cordon of ours and no execution that has not ended.
func (s *stage) nothingLeft() {
	s.t.Helper()
	ctx, cancel := s.ctx()
	defer cancel()
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(s.t, err)
	for _, n := range nodes.Items {
		require.Zero(s.t, ownedCordons(n.Annotations), "node %s carries a cordon of ours", n.Name)
		require.False(s.t, n.Spec.Unschedulable, "node %s is cordoned", n.Name)
	}
	jobs, err := s.kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	require.NoError(s.t, err)
	for _, j := range jobs.Items {
		ended := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
			return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == "True"
		})
		orphan := !slices.ContainsFunc(s.model.nodes, func(n string) bool { return n == j.Annotations[fleetv1.NodeAnnotation] })
		require.True(s.t, ended || orphan || j.Spec.Suspend != nil && *j.Spec.Suspend, "Job %s has not ended", j.Name)
	}
}

// tomorrow runs the loop with a clock that is days ahead, so that everything that is kept for a while is due: no Job may stay,
// and no stored definition or configuration but those of what is installed.
func (s *stage) tomorrow() {
	s.t.Helper()
	s.process.kill()
	days := 48 * time.Hour
	for range 3 { // unused is first marked, and deleted when it was for a while
		s.runAt(days, 15*time.Second)
		days += 48 * time.Hour
	}
	ctx, cancel := s.ctx()
	defer cancel()
	jobs, err := s.kube.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	require.NoError(s.t, err)
	require.Empty(s.t, jobs.Items, "Jobs that nobody needs")
	maps, err := s.kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: fleetv1.ManagedByLabel + "=" + fleetv1.FieldManager,
	})
	require.NoError(s.t, err)
	var names []string
	for _, m := range maps.Items {
		names = append(names, m.Name)
	}
	require.LessOrEqual(s.t, len(names), s.packages(), "one definition for each package that is wanted: %v", names)
	s.t.Logf("kept: no Job, %d definitions", len(names))
}

// packages counts what the NodeWrights want.
func (s *stage) packages() int {
	n := 0
	for _, w := range s.wishes {
		n += len(w.packages())
	}
	return n
}

// runAt runs the loop in this process for a while, with a clock that is ahead.
func (s *stage) runAt(ahead, length time.Duration) {
	s.t.Helper()
	l, err := loop.New(s.account, namespace, io.Discard)
	require.NoError(s.t, err)
	l.Rollout.Now = func() time.Time { return time.Now().Add(ahead) }
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	require.NoError(s.t, l.Run(ctx))
}

// farewell deletes every NodeWright: what is left on the nodes holds nothing.
func (s *stage) farewell() {
	s.t.Helper()
	for _, name := range wrights {
		s.deleteWright(name)
	}
	require.Eventually(s.t, func() bool {
		return !slices.ContainsFunc(wrights, func(n string) bool { return !s.gone(n) })
	}, s.long(), 100*time.Millisecond, "NodeWrights go")
	last := ""
	require.Eventually(s.t, func() bool {
		last = s.remains()
		return last == ""
	}, s.long(), 200*time.Millisecond, "cordons and statuses are swept; last: %s", lazy(func() string { return last }))
}

// lazy words a value when a failed assertion is printed.
type lazy func() string

func (l lazy) String() string { return l() }

// remains says what a NodeWright that is gone left on a node; empty: nothing that holds anything.
func (s *stage) remains() string {
	ctx, cancel := s.ctx()
	defer cancel()
	nodes, err := s.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(s.t, err)
	for _, n := range nodes.Items {
		if ownedCordons(n.Annotations) > 0 || n.Spec.Unschedulable || statusKeys(n.Annotations, n.Labels) {
			return fmt.Sprintf("node %s: unschedulable %t, annotations %v, labels %v", n.Name, n.Spec.Unschedulable, n.Annotations, n.Labels)
		}
	}
	return ""
}

func statusKeys(all ...map[string]string) bool {
	for _, keys := range all {
		for key := range keys {
			if strings.HasPrefix(key, nwv1.StatusPrefix) {
				return true
			}
		}
	}
	return false
}

// grow measures the process at rest after each of several rollouts over all nodes: the same work must not cost more and more.
func (s *stage) grow(rounds int) {
	s.t.Helper()
	var all []figures
	for i := range rounds {
		s.mend()
		s.await(fmt.Sprintf("complete (rollout %d of the same process)", i+1), completed)
		time.Sleep(time.Second)
		ctx, cancel := s.ctx()
		f, err := s.process.measure(ctx)
		cancel()
		require.NoError(s.t, err)
		s.t.Logf("at rest after rollout %d: %s", i+1, f)
		all = append(all, f)
	}
	first, last := all[0], all[len(all)-1]
	require.LessOrEqual(s.t, last.goroutines, first.goroutines+10, "goroutines grow: %v", all)
	require.Less(s.t, last.heap, 2*first.heap+(32<<20), "memory grows: %v", all)
}
