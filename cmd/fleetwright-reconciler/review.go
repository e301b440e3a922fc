package main

import (
	"fmt"
	"math"
	"runtime/debug"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/confined"
	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/delivery"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
)

// addReview wires the reviewer. Its child needs memory beside its own.
func addReview(m manager.Manager, o options) error {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(max(limit-confined.DefaultMemory, limit/2))
	}
	tool := version
	if tool == "dev" {
		tool = "" // somebody built it: that says nothing
	}
	err := delivery.AddReview(m, delivery.ReviewOptions{
		Namespace: o.namespace, Tool: tool, AllowInsecureHTTP: o.insecureHTTP, Registry: metrics.Registry,
	})
	if err != nil {
		return fmt.Errorf("set up the review of pull requests: %w", err)
	}
	return nil
}

// lease is what the leader holds: the reviewer does not compete with the reconciler.
func (o options) lease() string {
	if o.review {
		return fleetv1.ReviewLeaseName
	}
	return fleetv1.LeaseName
}
