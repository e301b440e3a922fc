package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

// state is the cluster in lines of text, without what differs from run to run: times, UIDs, versions, epochs; and, where
// nodes are admitted one by one, into which batch a node came.
type state []string

func (s state) String() string { return strings.Join(s, "\n") }

// diff lists the lines that only one of two states has.
func (s state) diff(want state) []string {
	count := map[string]int{}
	for _, line := range want {
		count[line]++
	}
	var out []string
	for _, line := range s {
		if count[line]--; count[line] < 0 {
			out = append(out, "+ "+line)
		}
	}
	for _, line := range want {
		if count[line] > 0 {
			count[line]--
			out = append(out, "- "+line)
		}
	}
	return out
}

// look reads the state.
func (s *story) look(ctx context.Context) (state, error) {
	var out state
	for _, read := range []func(context.Context) (state, error){s.nodes, s.nodeWrights, s.ledger, s.jobs, s.rest} {
		lines, err := read(ctx)
		if err != nil {
			return nil, err
		}
		sort.Strings(lines)
		out = append(out, lines...)
	}
	return out, nil
}

func line(what string, o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // plain data always marshals
	}
	return what + " " + string(data)
}

func (s *story) nodes(ctx context.Context) (state, error) {
	list := &corev1.NodeList{}
	if err := s.lane.admin.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var out state
	for _, n := range list.Items {
		var foreignTaints []string
		for _, t := range n.Spec.Taints {
			foreignTaints = append(foreignTaints, t.ToString())
		}
		sort.Strings(foreignTaints)
		out = append(out, line("node "+n.Name, map[string]any{
			"unschedulable": n.Spec.Unschedulable, "taints": foreignTaints, "labels": n.Labels,
		}))
		for key, value := range n.Annotations {
			if name, ours := strings.CutPrefix(key, fleetv1.RecordPrefix); ours {
				lines, err := recordLines(name, value, &n)
				if err != nil {
					return nil, err
				}
				out = append(out, lines...)
				continue
			}
			out = append(out, line("node "+n.Name+" annotation "+key, value))
		}
	}
	return out, nil
}

// recordLines are one line for the turn and one for each package.
func recordLines(name, value string, n *corev1.Node) (state, error) {
	r, found, err := noderecord.Decode(value, n.UID)
	if err != nil || !found {
		return nil, fmt.Errorf("record of %s on node %s: found %t, %w", name, n.Name, found, err)
	}
	r.NodeWright, r.Node = "", ""
	r.AdmittedAt, r.EndedAt, r.ReadyAt, r.DrainSince = nil, nil, nil, nil
	if name == alpha { // admitted one by one
		r.Batch = 0
	}
	var out state
	for pkg, p := range r.Packages {
		out = append(out, line("record of "+name+" on "+n.Name+" package "+pkg, p))
	}
	r.Packages = nil
	return append(out, line("record of "+name+" on "+n.Name, r)), nil
}

func (s *story) nodeWrights(ctx context.Context) (state, error) {
	list := &nwv1.NodeWrightList{}
	if err := s.lane.admin.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list nodewrights: %w", err)
	}
	var out state
	for _, nw := range list.Items {
		status := nw.Status
		for i := range status.Conditions {
			status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		for name, c := range status.CompartmentStatuses {
			if c.BatchState != nil && nw.Name == alpha {
				c.BatchState = nil
			}
			status.CompartmentStatuses[name] = c
		}
		out = append(out, line("status of "+nw.Name, status))
	}
	return out, nil
}

func (s *story) ledger(ctx context.Context) (state, error) {
	ledger := &fleetv1.Ledger{}
	if err := s.lane.admin.Get(ctx, client.ObjectKey{Name: fleetv1.LedgerName}, ledger); err != nil {
		return nil, fmt.Errorf("get ledger: %w", err)
	}
	var out state
	for name, r := range ledger.Spec.Rollouts {
		r.UID, r.StartedAt = "", metav1.Time{}
		for compartment, c := range r.Compartments {
			if c.Halt != nil {
				c.Halt.At = metav1.Time{}
			}
			if name == alpha {
				c = fleetv1.LedgerCompartment{Succeeded: c.Succeeded, Failed: c.Failed, Halt: c.Halt}
			}
			r.Compartments[compartment] = c
		}
		out = append(out, line("ledger of "+name, r))
	}
	return out, nil
}

// jobs are all executions with their ends.
func (s *story) jobs(ctx context.Context) (state, error) {
	list := &batchv1.JobList{}
	if err := s.lane.admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	var out state
	for _, j := range list.Items {
		end := "unfinished"
		for _, c := range j.Status.Conditions {
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				end = string(c.Type)
			}
		}
		if strings.Contains(execution(&j), ".interrupt.") && j.Labels[nwv1.NameLabel] == alpha {
			continue // a reboot kills its own execution, or is over first, or its Job goes because the new boot is seen before its end
		}
		out = append(out, "job "+execution(&j)+" "+end)
	}
	return out, nil
}

// rest are workloads and the reconciler's ConfigMaps.
func (s *story) rest(ctx context.Context) (state, error) {
	pods, maps := &corev1.PodList{}, &corev1.ConfigMapList{}
	if err := s.lane.admin.List(ctx, pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var out state
	for _, p := range pods.Items {
		out = append(out, "pod "+p.Name+" "+string(p.Status.Phase))
	}
	owned := client.MatchingLabels{fleetv1.ManagedByLabel: fleetv1.FieldManager}
	if err := s.lane.admin.List(ctx, maps, client.InNamespace(namespace), owned); err != nil {
		return nil, fmt.Errorf("list configmaps: %w", err)
	}
	for _, m := range maps.Items {
		name := ofUID.ReplaceAllString(m.Name, "configuration")
		out = append(out, line("configmap "+name, m.Data))
	}
	return out, nil
}

// rested reads the state until it stays the same for a while; with a wanted state, until it is that.
func (s *story) rested(ctx context.Context, want state) (state, error) {
	var last state
	since := time.Now()
	patience := 3 * time.Second
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		now, err := s.look(ctx)
		if err != nil {
			return nil, err
		}
		if want != nil && len(now.diff(want)) == 0 {
			return now, nil
		}
		if last == nil || len(now.diff(last)) > 0 {
			last, since = now, time.Now()
		}
		if want == nil && time.Since(since) > 700*time.Millisecond || time.Since(since) > patience || time.Now().After(deadline) {
			return now, nil
		}
	}
}
