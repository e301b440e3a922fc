package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/lab"
)

// soak is short, so that nobody falls asleep.
const soak = 5 * time.Second

// region is one cluster with its reconciler.
type region struct {
	lab.Cluster
	name string
	// after are the regions that it waits for.
	after   []string
	tiers   []lab.Tier
	process *lab.Process
}

func theRegions() []*region {
	few := []lab.Tier{{Name: "canary", Count: 1}, {Name: "serving", Count: 2}}
	return []*region{
		{name: "canary", tiers: few[:1]},
		{name: "us-east-1", after: []string{"canary"}, tiers: few},
		{name: "eu-west-1", after: []string{"canary", "us-east-1"}, tiers: few},
	}
}

func nodesOf(tiers []lab.Tier) int {
	n := 0
	for _, t := range tiers {
		n += t.Count
	}
	return n
}

func contextOf(region string) string { return "fleetwright/" + region }

func (r *region) start(ctx context.Context, dir, reconciler string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	r.Dir = dir
	if err := r.Start(ctx); err != nil {
		return err
	}
	if err := r.InstallChart(ctx, nil); err != nil {
		return err
	}
	if err := r.AddNodes(ctx, r.tiers); err != nil {
		return err
	}
	kubeconfig, err := r.Kubeconfig(ctx, chart.ReconcilerAccount)
	if err != nil {
		return err
	}
	process := &lab.Process{
		Name: "the reconciler of " + r.name, Binary: reconciler, Log: filepath.Join(dir, "reconciler.log"), Args: lab.ReconcilerArgs(kubeconfig),
	}
	if err := process.Start(); err != nil {
		return err
	}
	r.process = process
	return nil
}

// fleet is the object that makes the cluster a region: which overlay it follows, and what it waits for.
func (r *region) fleet(url string) *fleetv1.Fleet {
	f := &fleetv1.Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: lab.Namespace, Name: r.name}}
	f.Spec.Source.URL, f.Spec.Path = url, "./overlays/"+r.name
	f.Spec.Interval.Duration, f.Spec.Timeout.Duration, f.Spec.Prune = 10*time.Second, 30*time.Second, true
	f.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitNotes, Context: contextOf(r.name)}
	if len(r.after) > 0 {
		f.Spec.Promotion = &fleetv1.Promotion{}
	}
	for _, other := range r.after {
		f.Spec.Promotion.After = append(f.Spec.Promotion.After, fleetv1.PromotionGate{Context: contextOf(other), Soak: &metav1.Duration{Duration: soak}})
	}
	return f
}

// applied is the commit whose objects are in the cluster; empty if there is none.
func (r *region) applied(ctx context.Context) (string, error) {
	f := &fleetv1.Fleet{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: lab.Namespace, Name: r.name}, f); err != nil {
		return "", fmt.Errorf("region %s: read fleet: %w", r.name, err)
	}
	return f.Status.LastAppliedRevision[strings.LastIndex(f.Status.LastAppliedRevision, ":")+1:], r.process.Crashed()
}

func (r *region) close() {
	if r.process != nil {
		r.process.Stop()
	}
	r.Close()
}
