package delivery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// TestDeliveryReport_GF09_EmptyRepositoryWaitsForItsFirstPush: and one that is emptied later takes nothing away.
func TestDeliveryReport_GF09_EmptyRepositoryWaitsForItsFirstPush(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	require.NoError(t, w.git.CreateRepo("fleet"))
	f := w.fleet("empty", "fleet")
	now := w.untilReason(f, "EmptyRepository")
	require.True(t, has(now, "Reconciling"), "it is tried again")
	first := w.commit("fleet", good())
	now = w.untilApplied(f, first)
	require.Equal(t, "Progressing", ready(now).Reason)
	before := w.versions()

	emptied, err := w.git.Apply("fleet", gitserver.Change{Message: "nothing", Orphan: true, Files: map[string]string{"README": "moved"}})
	require.NoError(t, err)
	w.ask(f)
	now = w.untilReason(f, "BuildFailed")
	require.Equal(t, "main@sha1:"+emptied, now.Status.LastAttemptedRevision)
	require.NoError(t, w.git.DeleteBranch("fleet", "main"))
	w.ask(f)
	now = w.untilReason(f, "RefNotFound")
	require.Contains(t, ready(now).Message, "it has no branches")
	require.Equal(t, "main@sha1:"+first, now.Status.LastAppliedRevision)
	require.Len(t, now.Status.Inventory.Entries, 3)
	require.Equal(t, before, w.versions(), "what was applied stays")
}

// TestDeliveryReport_GF10_WhatWasAppliedIsNotTakenForTheNewRef: a branch that does not exist, one that is deleted while it is
// followed, renamed, and created again elsewhere.
func TestDeliveryReport_GF10_WhatWasAppliedIsNotTakenForTheNewRef(t *testing.T) {
	w := newWorld(t, gitserver.Options{})
	first := w.repo("fleet", good())
	f := w.fleet("refs", "fleet")
	w.untilApplied(f, first)
	w.untilNote("fleet", first, "pending")
	before := w.versions()

	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Source.Ref = &fleetv1.GitRef{Branch: "nope"} })
	now := w.untilReason(f, "RefNotFound")
	require.Contains(t, ready(now).Message, `branch "nope" does not exist`)
	require.Contains(t, ready(now).Message, "its branches: main")
	require.Equal(t, metav1.ConditionFalse, ready(now).Status)
	require.Equal(t, now.Generation, ready(now).ObservedGeneration)
	require.Equal(t, "main@sha1:"+first, now.Status.LastAppliedRevision, "it says of which branch it is")
	require.Equal(t, "main@sha1:"+first, now.Status.LastAttemptedRevision)
	for _, n := range w.notes("fleet", first) {
		require.NotContains(t, []string{"success", "failure"}, n.State, "the commit has nothing to do with it")
	}

	w.edit(f, func(f *fleetv1.Fleet) { f.Spec.Source.Ref = nil })
	w.untilReason(f, "Progressing")
	require.NoError(t, w.git.ForcePush("fleet", "trunk", first)) // renamed
	require.NoError(t, w.git.DeleteBranch("fleet", "main"))
	w.ask(f)
	now = w.untilReason(f, "RefNotFound")
	require.Contains(t, ready(now).Message, "its branches: trunk")
	require.Equal(t, before, w.versions())

	elsewhere, err := w.git.Apply("fleet", gitserver.Change{Message: "main again", Orphan: true,
		Files: good(map[string]string{"a/package.yaml": strings.Replace(packageFile, "262144", "524288", 1)})})
	require.NoError(t, err)
	now = w.untilApplied(f, elsewhere) // by itself: it is retried
	require.Equal(t, "Progressing", ready(now).Reason)
	require.NotEqual(t, before, w.versions())
}

// TestDeliveryReport_GF27_OutageOfTheServerHealsByItself: nobody has to touch the Fleet.
func TestDeliveryReport_GF27_OutageOfTheServerHealsByItself(t *testing.T) {
	out := &outage{}
	w := newWorld(t, gitserver.Options{Wrap: out.wrap})
	first := w.repo("fleet", good())
	f := w.fleet("outage", "fleet")
	w.untilApplied(f, first)
	before := w.versions()
	out.set(true)
	w.ask(f)
	now := w.untilReason(f, "Unreachable")
	require.Contains(t, ready(now).Message, "answered with HTTP status 503, while listing the refs")
	require.True(t, has(now, "Reconciling"))
	require.False(t, has(now, "Stalled"))
	w.kill() // a restart in the middle of it
	w.start()
	w.untilReason(f, "Unreachable")
	require.Equal(t, before, w.versions())
	second := w.commit("fleet", map[string]string{"a/package.yaml": strings.Replace(packageFile, "262144", "524288", 1)})
	out.set(false)
	now = w.untilApplied(f, second)
	require.Equal(t, "Progressing", ready(now).Reason)
	w.untilEvent("Fleet", "outage", "Recovered", "503")
}
