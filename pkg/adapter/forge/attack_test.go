package forge_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

var restKinds = []forge.Kind{
	forge.KindGitHub, forge.KindGitLab, forge.KindGitea, forge.KindBitbucketCloud, forge.KindBitbucketDataCenter, forge.KindAzureDevOps,
}

// TestAWriteThatIsRedirectedToAReadIsNoSuccess: net/http goes on with GET after 301, 302 and 303, whose answer says nothing about what was to be written.
func TestAWriteThatIsRedirectedToAReadIsNoSuccess(t *testing.T) {
	for _, kind := range restKinds {
		for _, code := range []int{301, 302, 303} {
			server := forgetest.NewServer(t, kind)
			commit := server.AddCommit()
			server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case r.URL.Path == "/moved":
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprint(w, `{"id":1,"state":"success","status":"success"}`)
				case r.Method == http.MethodPost:
					http.Redirect(w, r, "/moved", code)
				default:
					return false
				}
				return true
			})
			err := provider(t, kind, server).SetStatus(t.Context(), forge.Status{Commit: commit, Context: "fleetwright/a", State: forge.Success})
			require.Error(t, err, "%s %d", kind, code)
			require.Empty(t, server.Rows(commit))
		}
	}
}

// TestAPauseOfYearsIsAnHour: a number that overflows, or that somebody got wrong, neither starts a flood nor ends all reports.
func TestAPauseOfYearsIsAnHour(t *testing.T) {
	for _, header := range []map[string]string{
		{"Retry-After": "99999999999"}, {"Retry-After": "9223372036854775807"}, {"Retry-After": "Fri, 31 Dec 2199 23:59:59 GMT"},
		{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"},
	} {
		server := forgetest.NewServer(t, forge.KindGitHub)
		server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			for name, value := range header {
				w.Header().Set(name, value)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		_, err := provider(t, forge.KindGitHub, server).Statuses(t.Context(), strings.Repeat("a", 40))
		var perr *forge.ProviderError
		require.ErrorAs(t, err, &perr)
		require.Equal(t, forge.Wait, perr.Class, header)
		require.Equal(t, time.Hour, perr.RetryAfter, header)
	}
}

// TestAPullRequestWithoutCommitsHidesNoOther: Bitbucket Cloud lists short hashes, and the full one of a pull request that has nothing left cannot be found.
func TestAPullRequestWithoutCommitsHidesNoOther(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindBitbucketCloud)
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pullrequests"):
			fmt.Fprint(w, `{"values":[{"id":1,"source":{"commit":{"hash":"aaaaaaaaaaaa"}}},{"id":2,"source":{"commit":null}},
				{"id":3,"source":{"commit":{"hash":"bbbbbbbbbbbb"}}},{"id":4,"source":{"commit":{"hash":"cccccccccccc"}}}]}`)
		case strings.HasSuffix(r.URL.Path, "/pullrequests/3/commits"):
			fmt.Fprintf(w, `{"values":[{"hash":"%s"}]}`, strings.Repeat("b", 40))
		case strings.HasSuffix(r.URL.Path, "/pullrequests/4/commits"):
			fmt.Fprintf(w, `{"values":[{"hash":"%s"}]}`, strings.Repeat("d", 40))
		default:
			fmt.Fprint(w, `{"values":[]}`)
		}
		return true
	})
	all, err := provider(t, forge.KindBitbucketCloud, server).(forge.PullRequests).OpenPullRequests(t.Context(), "main")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, int64(3), all[0].Number)
}
