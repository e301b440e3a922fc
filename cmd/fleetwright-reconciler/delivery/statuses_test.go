package delivery

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/cmd/fleetwright-reconciler/internal/forges"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/reconciler"
)

// writers is the wiring of statuses against a Gitea, with its metrics.
func writers(t *testing.T) (*statuses, *forgetest.Server, *prometheus.Registry) {
	server, registry := forgetest.NewServer(t, forge.KindGitea), prometheus.NewRegistry()
	s := newStatuses(events.NewFakeRecorder(100), forge.ReporterOptions{})
	s.forges = forges.New(forges.Options{
		AllowInsecureHTTP: true, Meter: reconciler.NewForgeMetrics(registry, s.pending),
		Secrets: func(context.Context, string, string) (map[string][]byte, error) {
			return map[string][]byte{"token": []byte(forgetest.Token)}, nil
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return s, server, registry
}

func reportingFleet(name string, server *forgetest.Server) *fleetv1.Fleet {
	f := &fleetv1.Fleet{}
	f.Namespace, f.Name = "fleetwright", name
	f.Spec.Source.URL = server.URL + "/" + forgetest.Owner + "/" + forgetest.Repository + ".git"
	f.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitea, SecretRef: &meta.LocalObjectReference{Name: "forge-token"}}
	return f
}

func wanted(commit string, state report.CommitState) []report.CommitStatus {
	return []report.CommitStatus{{Commit: commit, State: state, Description: "4/4 nodes"}}
}

func TestStatusesCarryTheLinkAndAreCounted(t *testing.T) {
	s, server, registry := writers(t)
	f, commit := reportingFleet("us-east-1", server), server.AddCommit()
	f.Spec.Checks.TargetURL = "https://grafana.example.com/d/fleet?ns={namespace}&fleet={name}&commit={commit}"
	_, err := s.Want(t.Context(), f, wanted(commit, report.CommitSuccess))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(server.Rows(commit)) == 1 && s.pending() == 0 }, 10*time.Second, time.Millisecond)
	row := server.Rows(commit)[0]
	require.Equal(t, "https://grafana.example.com/d/fleet?ns=fleetwright&fleet=us-east-1&commit="+commit, row.URL)
	require.Equal(t, "fleetwright/fleetwright/us-east-1", row.Context)
	require.Equal(t, map[string]float64{
		"fleetwright_commit_status_pending": 0, "fleetwright_scm_requests_total 200 status_list gitea": 1, "fleetwright_scm_requests_total 201 status_set gitea": 1,
	}, metricsOf(t, registry))
}

// metricsOf are all values by name and labels.
func metricsOf(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

func TestDeliveryReport_CS03_TwoFleetsShareNoContextOfARepository(t *testing.T) {
	s, server, _ := writers(t)
	commit := server.AddCommit()
	first, second := reportingFleet("us-east-1", server), reportingFleet("eu-west-1", server)
	_, err := s.Want(t.Context(), first, wanted(commit, report.CommitSuccess))
	require.NoError(t, err)
	_, err = s.Want(t.Context(), second, wanted(commit, report.CommitPending))
	require.NoError(t, err, "the default context names the Fleet")
	second.Spec.Checks.Context = "fleetwright/fleetwright/us-east-1"
	second.Spec.Source.URL = strings.TrimSuffix(second.Spec.Source.URL, ".git") // another spelling of one repository
	_, err = s.Want(t.Context(), second, wanted(commit, report.CommitFailure))
	require.EqualError(t, err, `no commit statuses: spec.checks.context "fleetwright/fleetwright/us-east-1" is used by `+
		"Fleet fleetwright/us-east-1 for this repository too; choose another")
}

// TestDeliveryReport_CS16_WhatWasBegunEnds: a Fleet that stops to report, or is deleted, leaves nothing pending.
func TestDeliveryReport_CS16_WhatWasBegunEnds(t *testing.T) {
	s, server, _ := writers(t)
	f, commit := reportingFleet("us-east-1", server), server.AddCommit()
	_, err := s.Want(t.Context(), f, wanted(commit, report.CommitPending))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(server.Rows(commit)) == 1 }, 10*time.Second, time.Millisecond)
	s.Forget(client.ObjectKeyFromObject(f), "the Fleet was deleted")
	require.Eventually(t, func() bool { return len(server.Rows(commit)) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, "error", server.Rows(commit)[1].State)
	require.Equal(t, "the Fleet was deleted", server.Rows(commit)[1].Description)
}

// TestDeliveryReport_CS19_OnlyTheLeaderWrites: the manager starts the writers with the lease.
func TestDeliveryReport_CS19_OnlyTheLeaderWrites(t *testing.T) {
	var runnable manager.LeaderElectionRunnable = newStatuses(nil, forge.ReporterOptions{})
	require.True(t, runnable.NeedLeaderElection())
}

func TestRefOfAFleet(t *testing.T) {
	for want, ref := range map[string]*fleetv1.GitRef{
		"main": nil, "topic": {Branch: "topic"}, "refs/tags/v1": {Tag: "v1"}, "": {SemVer: ">=1"},
	} {
		f := &fleetv1.Fleet{}
		f.Spec.Source.Ref = ref
		require.Equal(t, want, refName(f))
	}
}
