package delivery

import (
	"net/http"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

// atForge lets a Fleet report to a forge over HTTP.
func (w *world) atForge(server *forgetest.Server) func(*fleetv1.Fleet) {
	w.secret("forge-token", map[string]string{"token": forgetest.Token})
	return func(f *fleetv1.Fleet) {
		f.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitea, URL: server.URL, SecretRef: &meta.LocalObjectReference{Name: "forge-token"}}
	}
}

func statesAt(server *forgetest.Server, commit string) []string {
	var out []string
	for _, row := range server.Rows(commit) {
		out = append(out, row.State)
	}
	return out
}

// TestDeliveryReport_CS01_AFailureThatWasDecidedBeforeAKillIsShown: the forge is down while a commit is refused, the process dies,
// and a newer commit comes. No commit stays without an end, and none shows a success.
func TestDeliveryReport_CS01_AFailureThatWasDecidedBeforeAKillIsShown(t *testing.T) {
	const repo = forgetest.Owner + "/" + forgetest.Repository
	w, server := newWorld(t, gitserver.Options{}), forgetest.NewServer(t, forge.KindGitea)
	down := func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(http.StatusBadGateway); return true }
	server.Intercept(down)
	bad := w.repo(repo, good(replaced(t, "a/nodewright.yaml", "deploymentPolicy", "deploymentPolcy")))
	server.Know(bad)
	f := w.fleet("at-forge", repo, slow, w.atForge(server))
	w.untilReason(f, "ValidationFailed")
	w.kill() // nothing is shown yet
	require.Empty(t, server.Rows(bad))
	w.start()
	w.eventually("another process still knows that the commit has no end", func() bool {
		return w.get(f).Annotations[fleetv1.OpenCommitsAnnotation] == bad
	})
	w.kill()
	fixed := w.commit(repo, good())
	server.Know(fixed)
	server.Intercept(nil)
	w.start()
	w.untilApplied(f, fixed)
	w.eventually("both commits show what they should", func() bool {
		ends := statesAt(server, bad)
		return len(ends) > 0 && slices.Contains([]string{"failure", "error"}, ends[len(ends)-1]) && slices.Contains(statesAt(server, fixed), "pending")
	})
	w.play("gpu", completed)
	w.eventually("the rollout ends in one success", func() bool { return slices.Contains(statesAt(server, fixed), "success") })
	require.NotContains(t, statesAt(server, bad), "success")
	w.eventually("nothing is open any more", func() bool { return w.get(w.ask(f)).Annotations[fleetv1.OpenCommitsAnnotation] == "" })
	require.Equal(t, "success", statesAt(server, fixed)[len(statesAt(server, fixed))-1])
}
