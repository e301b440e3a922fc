package forge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

const giteaToken = "0123456789abcdef"

// giteaServer enforces what Gitea's API documents and what its server was seen to do: rows are appended, the list comes in an
// order of its own and in pages, any state is stored, an unknown commit answers 500.
type giteaServer struct {
	mu      sync.Mutex
	rows    []giteaRow
	commits []string
	calls   []string
	// first, where set, may answer instead of the server.
	first func(w http.ResponseWriter, r *http.Request) bool
	// store, where set, changes the state that is kept.
	store func(state string) string
}

type giteaRow struct {
	ID          int64  `json:"id"`
	State       string `json:"status"`
	TargetURL   string `json:"target_url"`
	Description string `json:"description"`
	Context     string `json:"context"`

	sha string
}

func newGiteaServer(t *testing.T) (*giteaServer, *forge.Gitea) {
	s := &giteaServer{commits: []string{giteaCommit}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/repos/acme/fleet/statuses/{sha}", s.create)
	mux.HandleFunc("GET /api/v1/repos/acme/fleet/commits/{sha}/statuses", s.list)
	mux.HandleFunc("GET /api/v1/repos/acme/fleet/git/commits/{sha}", s.commit)
	server := httptest.NewServer(s.guard(mux))
	t.Cleanup(server.Close)
	return s, giteaClient(t, server.URL, giteaToken)
}

var giteaCommit = strings.Repeat("cd", 20)

func giteaClient(t *testing.T, url, token string) *forge.Gitea {
	client, err := forge.NewGitea(forge.Config{
		URL: url + "/", Owner: "acme", Repository: "fleet", Credential: forge.Credential{Token: token + "\n"},
	})
	require.NoError(t, err)
	return client
}

func (s *giteaServer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, r.Method+" "+r.URL.Path)
		switch {
		case r.Header.Get("Authorization") != "token "+giteaToken:
			reply(w, http.StatusUnauthorized, map[string]string{"message": "user does not exist [uid: 0, name: ]"})
		case s.first != nil && s.first(w, r):
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *giteaServer) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		State       string `json:"state"`
		TargetURL   string `json:"target_url"`
		Description string `json:"description"`
		Context     string `json:"context"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		reply(w, http.StatusUnprocessableEntity, map[string]string{"message": err.Error()})
		return
	}
	if !slices.Contains(s.commits, r.PathValue("sha")) {
		reply(w, http.StatusInternalServerError, map[string]string{"message": "object does not exist"})
		return
	}
	if s.store != nil {
		in.State = s.store(in.State)
	}
	row := giteaRow{int64(len(s.rows) + 1), in.State, in.TargetURL, in.Description, in.Context, r.PathValue("sha")}
	s.rows = append(s.rows, row)
	reply(w, http.StatusCreated, row)
}

func (s *giteaServer) list(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if page < 1 || limit < 1 {
		reply(w, http.StatusBadRequest, map[string]string{"message": "the tests want an explicit page and limit"})
		return
	}
	limit = min(limit, 30) // MAX_RESPONSE_ITEMS of a careful administrator
	mine := slices.DeleteFunc(slices.Clone(s.rows), func(row giteaRow) bool { return row.sha != r.PathValue("sha") })
	// Rows of one second come in any order: here the odd ids first, which puts an old row at the end.
	slices.SortStableFunc(mine, func(a, b giteaRow) int { return int(b.ID%2 - a.ID%2) })
	from, to := min((page-1)*limit, len(mine)), min(page*limit, len(mine))
	if to < len(mine) {
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=%d&limit=%d>; rel="next"`, r.Host, r.URL.Path, page+1, limit))
	}
	reply(w, http.StatusOK, mine[from:to])
}

func (s *giteaServer) commit(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(s.commits, r.PathValue("sha")) {
		reply(w, http.StatusNotFound, map[string]string{"message": "object does not exist"})
		return
	}
	reply(w, http.StatusOK, map[string]string{"sha": r.PathValue("sha")})
}

func TestGiteaShowsTheNewestRowOfEachContext(t *testing.T) {
	server, client := newGiteaServer(t)
	for i := range 75 {
		require.NoError(t, client.SetStatus(t.Context(), status(giteaCommit, forge.Pending, fmt.Sprint(i))))
	}
	other := status(giteaCommit, forge.Failure, "halted")
	other.Context, other.TargetURL = "fleetwright/eu-west-1", "https://fleet.example/runs/1"
	require.NoError(t, client.SetStatus(t.Context(), other))
	got, err := client.Statuses(t.Context(), giteaCommit)
	require.NoError(t, err)
	require.Equal(t, []forge.Status{other, status(giteaCommit, forge.Pending, "74")}, got)
	for _, call := range server.calls {
		require.NotContains(t, call, "version", "the SDK must not probe the server")
	}
}

func TestGiteaErrors(t *testing.T) {
	answer := func(code int, header http.Header, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for k, v := range header {
				w.Header()[k] = v
			}
			http.Error(w, body, code)
			return true
		}
	}
	for name, c := range map[string]struct {
		first func(http.ResponseWriter, *http.Request) bool
		token string
		want  string
		class forge.Class
		wait  time.Duration
	}{
		"wrong token": {nil, "wrong", "post status to gitea: the server does not accept the token", forge.Permanent, 0},
		"read-only token": {answer(403, nil, "{}"), giteaToken,
			"post status to gitea: the token may not do this (needed: scope write:repository and write access to the repository)", forge.Permanent, 0},
		"no repository": {answer(404, nil, "{}"), giteaToken,
			"post status to gitea: repository acme/fleet not found, or the token may not see it", forge.Permanent, 0},
		"limit reached": {answer(422, nil, `{"message":"too many statuses"}`), giteaToken,
			"post status to gitea: server answered 422 Unprocessable Entity: too many statuses", forge.Permanent, 0},
		"too many": {answer(429, http.Header{"Retry-After": {"30"}}, `{"message":"slow down"}`), giteaToken,
			"post status to gitea: server answered 429 Too Many Requests: slow down", forge.Wait, 30 * time.Second},
		"too many, no time given": {answer(429, nil, `{"message":"slow down"}`), giteaToken,
			"post status to gitea: server answered 429 Too Many Requests: slow down", forge.Wait, time.Minute},
		"proxy down": {answer(502, nil, `{"message":"echo `+giteaToken+`"}`), giteaToken,
			"post status to gitea: server answered 502 Bad Gateway: echo ***", forge.Retry, 0},
		"other host": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://evil.example/", http.StatusTemporaryRedirect)
			return true
		}, giteaToken, `post status to gitea: Post "https://evil.example/": server redirects to evil.example: set the final address`, forge.Retry, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := newGiteaServer(t)
			server.first = c.first
			web := httptest.NewServer(server.guard(http.NotFoundHandler()))
			t.Cleanup(web.Close)
			err := giteaClient(t, web.URL, c.token).SetStatus(t.Context(), status(giteaCommit, forge.Success, "done"))
			require.EqualError(t, err, c.want)
			var perr *forge.ProviderError
			require.ErrorAs(t, err, &perr)
			require.Equal(t, c.class, perr.Class)
			require.Equal(t, c.wait, perr.RetryAfter)
		})
	}
}

func TestGiteaUnknownCommitIsTold(t *testing.T) {
	server, client := newGiteaServer(t)
	unknown := strings.Repeat("ef", 20)
	err := client.SetStatus(t.Context(), status(unknown, forge.Success, "done"))
	require.EqualError(t, err, "post status to gitea: acme/fleet has no commit "+unknown)
	require.Equal(t, forge.UnknownCommit, forge.ClassOf(err))
	require.Len(t, server.calls, 2)

	server.first = func(w http.ResponseWriter, r *http.Request) bool { // a real 500: the commit is there
		if r.Method == http.MethodPost {
			reply(w, http.StatusInternalServerError, map[string]string{"message": "database is locked"})
		}
		return r.Method == http.MethodPost
	}
	err = client.SetStatus(t.Context(), status(giteaCommit, forge.Success, "done"))
	require.EqualError(t, err, "post status to gitea: server answered 500 Internal Server Error: database is locked")
	require.Equal(t, forge.Retry, forge.ClassOf(err))
}

func TestGiteaStateThatIsNotStoredAsSent(t *testing.T) {
	server, client := newGiteaServer(t)
	err := client.SetStatus(t.Context(), status(giteaCommit, "running", ""))
	require.EqualError(t, err, `check status: unknown state "running" (allowed: pending, success, failure, error)`)
	require.Empty(t, server.calls, "the server would have answered 201")
	server.store = func(string) string { return "" }
	err = client.SetStatus(t.Context(), status(giteaCommit, forge.Success, ""))
	require.EqualError(t, err, `post status to gitea: server stored state "" instead of "success"`)
}

func TestNewGiteaSaysWhatIsMissing(t *testing.T) {
	_, err := forge.NewGitea(forge.Config{URL: "https://git.example.com", Owner: "acme", Repository: "fleet"})
	require.EqualError(t, err, "prepare gitea client: no token")
	_, err = forge.NewGitea(forge.Config{
		URL: "https://git.example.com", Owner: "acme", Repository: "fleet", CABundle: []byte("x"), Credential: forge.Credential{Token: "x"},
	})
	require.EqualError(t, err, "read CA bundle: no PEM certificate found in key ca.crt")
}
