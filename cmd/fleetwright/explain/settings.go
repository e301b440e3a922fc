package explain

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// deployment is the name that the chart gives the reconciler.
const deployment = "fleetwright-reconciler"

// settings are the flags of the reconciler's Deployment that decide something. What cannot be read is as the flags'
// defaults are, and a note says so.
func (s *Source) settings(ctx context.Context, notes *[]string) plan.Settings {
	out := plan.Settings{StageTimeout: time.Hour, Namespace: s.namespace}
	d, err := s.kube.AppsV1().Deployments(s.namespace).Get(ctx, deployment, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return out // it runs outside of the cluster, or not at all: see leader
	case err != nil:
		note(notes, "the reconciler's flags are taken to be the defaults: "+Word(err).Error())
		return out
	}
	if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
		note(notes, fmt.Sprintf("the Deployment %s/%s has 0 replicas: unless a reconciler runs elsewhere, nothing moves", s.namespace, deployment))
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		readFlags(c, &out)
	}
	return out
}

// readFlags reads --flag=value from the arguments and FLEETWRIGHT_FLAG from the environment; arguments win.
func readFlags(c corev1.Container, out *plan.Settings) {
	given := map[string]string{}
	for _, e := range c.Env {
		if name, ok := strings.CutPrefix(e.Name, "FLEETWRIGHT_"); ok {
			given[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = e.Value
		}
	}
	for _, arg := range c.Args {
		if name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "="); ok {
			given[name] = value
		}
	}
	if n, err := strconv.ParseInt(given["attempts"], 10, 32); err == nil {
		out.Attempts = int32(n)
	}
	for flag, to := range map[string]*time.Duration{
		"stage-timeout": &out.StageTimeout, "retry-backoff": &out.RetryBackoff,
		"pull-tolerance": &out.PullTolerance, "drain-retry": &out.DrainRetry,
	} {
		if d, err := time.ParseDuration(given[flag]); err == nil {
			*to = d
		}
	}
}

// leader notes that no reconciler is at work: then nothing that is explained here will come about.
func (s *Source) leader(ctx context.Context, p *Picture) {
	lease, err := s.kube.CoordinationV1().Leases(s.namespace).Get(ctx, fleetv1.LeaseName, metav1.GetOptions{})
	name := s.namespace + "/" + fleetv1.LeaseName
	switch {
	case apierrors.IsNotFound(err):
		note(&p.notes, fmt.Sprintf("no reconciler leads: the lease %s does not exist (is --namespace right?)", name))
	case err != nil:
		note(&p.notes, "whether a reconciler leads is not known: "+Word(err).Error())
	case lease.Spec.RenewTime == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "":
		note(&p.notes, fmt.Sprintf("no reconciler leads: nobody holds the lease %s", name))
	default:
		duration := 15 * time.Second
		if d := lease.Spec.LeaseDurationSeconds; d != nil {
			duration = time.Duration(*d) * time.Second
		}
		if age := p.in.Now.Sub(lease.Spec.RenewTime.Time); age > 2*duration {
			note(&p.notes, fmt.Sprintf("no reconciler leads: the lease %s was last renewed %s ago by %s", name, short(age), *lease.Spec.HolderIdentity))
		}
	}
}
