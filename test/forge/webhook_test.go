package forge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge/webhook"
	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// inbox keeps what the forge sends.
type inbox struct {
	mu      sync.Mutex
	arrived []wake.Event
	wrong   []string
	secret  string
}

func (i *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	hook, bad := webhook.Read(r.Header, body)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err != nil || bad != nil:
		i.wrong = append(i.wrong, fmt.Sprintf("%v %v: %v %s", err, bad, r.Header, body))
	case hook.Event.Kind == wake.Ignored:
	case hook.Verify([]byte(i.secret), time.Now()) != nil, hook.Verify([]byte("another"), time.Now()) == nil, hook.Delivery == "":
		i.wrong = append(i.wrong, fmt.Sprintf("not verified: %v", r.Header))
	default:
		i.arrived = append(i.arrived, hook.Event)
	}
	w.WriteHeader(http.StatusAccepted)
}

// until waits for an event that lets the Fleet look at what is wanted, and forgets what came so far.
func (i *inbox) until(t *testing.T, fleet *fleetv1.Fleet, want wake.Look) {
	t.Helper()
	require.Eventually(t, func() bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, e := range i.arrived {
			if wake.Names(fleet, e) && wake.For(fleet, e) == want {
				i.arrived = nil
				return true
			}
		}
		return false
	}, patience, poll, "%+v", i)
}

// TestWebhooksOfARealForgeAreUnderstood: what Gitea really sends, under all of its own and GitHub's and Gogs' headers, is read, its
// signature fits, and it concerns the Fleets that it should.
func TestWebhooksOfARealForgeAreUnderstood(t *testing.T) {
	jane, w := owner(t, "hooks", map[string]string{"a.yaml": "a"})
	in := &inbox{secret: "a secret of Jane's"}
	receiver := httptest.NewServer(in)
	defer receiver.Close()
	_, _, err := jane.API.CreateRepoHook(jane.Name, "fleet", gitea.CreateHookOption{
		Type: gitea.HookTypeGitea, Active: true, Events: []string{"push", "create", "delete", "pull_request", "pull_request_sync", "pull_request_label"},
		Config: map[string]string{"url": receiver.URL + "/webhook", "content_type": "json", "secret": in.secret},
	})
	require.NoError(t, err)
	fleet := func(url string, ref fleetv1.GitRef) *fleetv1.Fleet {
		f := &fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{URL: url, Ref: &ref}}}
		f.Spec.Checks = &fleetv1.Checks{PullRequests: &fleetv1.PullRequestChecks{Plan: true}}
		return f
	}
	address := shared.URL + "/" + jane.Name + "/fleet.git"
	follower := fleet(address, fleetv1.GitRef{Branch: "main"})

	w.push("main", map[string]string{"a.yaml": "b"})
	in.until(t, follower, wake.Revision)
	w.push("main", map[string]string{"a.yaml": "c"})
	in.until(t, fleet("ssh://git@"+shared.SSH+"/"+jane.Name+"/fleet.git", fleetv1.GitRef{Branch: "HEAD"}), wake.Revision)
	w.git("push", "--quiet", "origin", "HEAD:refs/heads/release")
	in.until(t, fleet(address, fleetv1.GitRef{Branch: "release"}), wake.Revision)
	w.git("push", "--quiet", "origin", "HEAD:refs/tags/v1.2.0")
	in.until(t, fleet(address, fleetv1.GitRef{SemVer: ">=1.0.0"}), wake.Revision)
	w.git("push", "--quiet", "origin", ":refs/tags/v1.2.0")
	in.until(t, fleet(address, fleetv1.GitRef{Tag: "v1.2.0"}), wake.Revision)

	w.git("checkout", "--quiet", "-b", "topic")
	w.push("topic", map[string]string{"a.yaml": "d"})
	made := pull(t, jane, jane.Name, gitea.CreatePullRequestOption{Head: "topic", Base: "main", Title: "Change it"})
	in.until(t, follower, wake.Reviews)
	w.push("topic", map[string]string{"a.yaml": "e"})
	in.until(t, follower, wake.Reviews)
	_, _, err = jane.API.EditPullRequest(jane.Name, "fleet", made.Index, gitea.EditPullRequestOption{Base: "release"})
	require.NoError(t, err)
	in.until(t, follower, wake.Reviews) // it is not for main any more
	w.git("push", "--quiet", "origin", ":refs/heads/topic")
	in.until(t, fleet(address, fleetv1.GitRef{Branch: "topic"}), wake.Revision)

	in.mu.Lock()
	defer in.mu.Unlock()
	require.Empty(t, in.wrong)
}
