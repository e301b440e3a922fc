package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/history"
)

// ending is what a run came to.
type ending struct {
	state  state
	work   []string // what ran on each node, in order; how often each was rebooted
	broken []string // invariants
	writes *writes
	starts int
	took   time.Duration
	parts  []string // how long each chapter took
	// evicted is how often each pod's eviction was accepted.
	evicted map[string]int
}

// disturbance goes on beside the story, until ctx ends.
type disturbance func(ctx context.Context, s *story)

// reconcilers are what runs in one run of the story.
type reconcilers interface {
	run()
	// stop ends them and says what went wrong.
	stop() error
	started() int
}

// play plays the story once on a lane, disturbed as the setting says. The end is awaited until it is the wanted one, if that
// is given.
func (l *lane) play(ctx context.Context, want *ending, how setting) (*ending, error) {
	if err := l.renew(ctx); err != nil {
		return nil, err
	}
	begin := time.Now()
	fleet, stopKubelets, err := l.kubelets(fate)
	if err != nil {
		return nil, err
	}
	defer stopKubelets()
	s := &story{lane: l, fleet: fleet, writes: newWrites(how.points...)}
	out, err := s.run(ctx, want, how)
	out.took = time.Since(begin)
	if cleared := l.clear(ctx, fleet); cleared != nil {
		err = errors.Join(err, fmt.Errorf("clear: %w", cleared), l.start(ctx))
	}
	return out, err
}

// setting is how a run is disturbed.
type setting struct {
	points []point
	watch  *watchFaults
	// reachable, onOutage, onRestart: see gate.
	reachable           func(cluster.AuditEvent) bool
	onOutage, onRestart func()
	disturb             disturbance
	// leaders, where not nil, makes the reconcilers; default: one process at a time.
	leaders func(*lane, *writes) reconcilers
}

func (how setting) gate(w *writes, kill func()) *gate {
	return &gate{
		writes: w, kill: kill, watch: how.watch, reachable: how.reachable, onOutage: how.onOutage, onRestart: how.onRestart,
	}
}

func (how setting) reconcilers(l *lane, w *writes) reconcilers {
	if how.leaders != nil {
		return how.leaders(l, w)
	}
	return &processes{config: l.config, writes: w, how: how}
}

func (s *story) run(ctx context.Context, want *ending, how setting) (*ending, error) {
	out := &ending{writes: s.writes}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.setUp(ctx); err != nil {
		return out, fmt.Errorf("set up: %w", err)
	}
	record, err := history.Record(ctx, s.lane.cluster.Config())
	if err != nil {
		return out, err
	}
	began := time.Now()
	p := how.reconcilers(s.lane, s.writes)
	p.run()
	idle := s.disturb(ctx, how.disturb)
	err = s.play(ctx)
	idle()
	out.parts = s.took
	if err == nil {
		out.state, err = s.rested(ctx, wantedState(want))
	}
	err = errors.Join(err, p.stop())
	out.starts = p.started()
	changes, recorded := record.Changes(ctx)
	out.broken = history.Check(changes, rules())
	out.work = workOf(changes)
	early, audited := s.audit(ctx, began, out)
	out.broken = append(out.broken, early...)
	told, listed := s.told(ctx)
	out.broken = append(out.broken, told...)
	return out, errors.Join(err, recorded, audited, listed)
}

// disturb starts a disturbance; the answer ends it.
func (s *story) disturb(ctx context.Context, d disturbance) func() {
	if d == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		d(ctx, s)
	}()
	return func() { cancel(); <-done }
}

func wantedState(want *ending) state {
	if want == nil {
		return nil
	}
	return want.state
}

// workOf is how often each node was rebooted, and what succeeded there, in order for each NodeWright and package.
func workOf(changes []history.Change) []string {
	stages, reboots := history.Ran(changes)
	var out []string
	for _, node := range nodeNames {
		ran := map[string][]string{}
		for _, stage := range stages[node] {
			words := strings.Fields(stage)
			pkg, _, _ := strings.Cut(words[2], "-")
			ran[words[0]+" "+pkg] = append(ran[words[0]+" "+pkg], words[1]+" "+words[2])
		}
		out = append(out, fmt.Sprintf("%s: %d reboots", node, reboots[node]))
		for _, pkg := range slices.Sorted(maps.Keys(ran)) {
			out = append(out, fmt.Sprintf("%s %s: %s", node, pkg, strings.Join(ran[pkg], ", ")))
		}
	}
	return out
}

// told looks for the Secret in events.
func (s *story) told(ctx context.Context) ([]string, error) {
	list := &corev1.EventList{}
	if err := s.lane.admin.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	var out []string
	for _, e := range list.Items {
		if strings.Contains(e.Message, secretValue) {
			out = append(out, "10: event "+e.Reason+" shows the value of a Secret: "+e.Message)
		}
	}
	return out, nil
}

// audit reads the request log: every eviction, refused ones too, came after the cordon of its node was in the API.
func (s *story) audit(ctx context.Context, began time.Time, end *ending) ([]string, error) {
	log := s.lane.cluster.Audit()
	defer log.Forget()
	if err := log.Sync(ctx); err != nil {
		return nil, err
	}
	patches, err := log.Events(cluster.Match{Verb: "patch", Resource: "nodes"})
	if err != nil {
		return nil, err
	}
	evictions, err := log.Events(cluster.Match{Verb: "create", Resource: "pods/eviction"})
	if err != nil {
		return nil, err
	}
	end.evicted = map[string]int{}
	var out []string
	nodeOf := map[string]string{"web": "c0", "train": "c1", "slow": "c2", "plain": "c4"}
	for _, e := range evictions {
		if e.Received.Before(began) {
			continue
		}
		if e.Code == 201 {
			end.evicted[e.Name]++
		}
		if e.Name == "train" {
			out = append(out, "3: the protected pod was asked to leave")
		}
		if !cordonedAt(patches, nodeOf[e.Name], e.Received) {
			out = append(out, "2: pod "+e.Name+" was asked to leave before the cordon of its node")
		}
	}
	return out, nil
}

// cordonedAt says whether the newest change of the node's cordon before that moment set it.
func cordonedAt(patches []cluster.AuditEvent, node string, at time.Time) bool {
	cordoned, newest := false, time.Time{}
	for _, e := range patches {
		if e.Name != node || e.Code != 200 || e.Received.After(at) || e.Received.Before(newest) {
			continue
		}
		text := string(e.Request)
		switch {
		case strings.Contains(text, `{"op":"add","path":"/spec/unschedulable","value":true}`):
			cordoned, newest = true, e.Received
		case strings.Contains(text, `{"op":"remove","path":"/spec/unschedulable"}`):
			cordoned, newest = false, e.Received
		}
	}
	return cordoned
}

// faultsOf lists what is wrong with an ending, compared with the undisturbed one.
func (e *ending) faultsOf(want *ending) []string {
	out := slices.Clone(e.broken)
	for _, line := range e.state.diff(want.state) {
		out = append(out, "state "+line)
	}
	for _, line := range state(e.work).diff(want.work) {
		out = append(out, "work "+line)
	}
	return out
}

// kindsOfPoints counts points by what happens.
func kindsOfPoints(points []point) string {
	count := map[fault]int{}
	for _, p := range points {
		count[p.fault]++
	}
	var out []string
	for _, f := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%d %s", count[f], f))
	}
	return strings.Join(out, ", ")
}
