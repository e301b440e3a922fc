package forgetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
)

// Token is the credential that servers accept. Owner and Repository name their one repository, Base is its branch.
const (
	Token      = "t0ken-of-the-bot"
	Owner      = "acme"
	Repository = "fleet"
	Base       = "main"
	// AppID is the GitHub App that the token belongs to where a test says so.
	AppID = "4711"
)

// Bot and Stranger are the users: the token's own, and another one.
const (
	Bot      = "fleet-bot"
	Stranger = "stranger"
)

var userIDs = map[string]int64{Bot: 7, Stranger: 8}

// Row is one status as a forge keeps it.
type Row struct {
	ID                                int64
	Commit, Context, State            string
	Description, URL, Ref, User       string
	Pipeline, PullRequest, IterationN int64
	At                                time.Time

	ci bool // a job of the forge's own CI
}

// Pull is a pull request.
type Pull struct {
	Number              int64
	Title, Head, Branch string
	Base, BaseHead      string
	MergeBase           string
	Fork, Closed        bool
	Labels              []string
	iterations          []string
}

type comment struct {
	id, pull   int64
	user, body string
	version    int
}

// Server is one forge with one repository.
type Server struct {
	*httptest.Server
	kind forge.Kind

	mu        sync.Mutex
	intercept func(w http.ResponseWriter, r *http.Request) bool
	calls     []string
	commits   map[string]bool
	rows      []*Row
	pipelines []pipeline
	pulls     []*Pull
	comments  []*comment
	reports   map[string]*report
	runs      []*run
	ids       int64
}

// NewServer starts a forge of a kind; it ends with the test.
func NewServer(t testing.TB, kind forge.Kind) *Server {
	s := &Server{kind: kind, commits: map[string]bool{}, reports: map[string]*report{}}
	mux := http.NewServeMux()
	map[forge.Kind]func(*http.ServeMux){
		forge.KindGitHub: s.github, forge.KindGitLab: s.gitlab, forge.KindGitea: s.gitea,
		forge.KindBitbucketCloud: s.cloud, forge.KindBitbucketDataCenter: s.dataCenter, forge.KindAzureDevOps: s.azure,
	}[kind](mux)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(mux, w, r) }))
	t.Cleanup(s.Close)
	return s
}

// serve checks what all forges check: who asks, and that it is asked in JSON.
func (s *Server) serve(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, r.Method+" "+r.URL.EscapedPath())
	if s.intercept != nil && s.intercept(w, r) {
		return
	}
	if !s.knows(r) {
		s.unknownUser(w)
		return
	}
	if r.ContentLength > 0 && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		s.refuse(w, http.StatusUnsupportedMediaType, "send application/json")
		return
	}
	mux.ServeHTTP(w, r)
}

// knows checks the credential in the form that the forge wants.
func (s *Server) knows(r *http.Request) bool {
	user, password, basic := r.BasicAuth()
	got := r.Header.Get("Authorization")
	switch s.kind {
	case forge.KindGitea:
		return got == "token "+Token
	case forge.KindAzureDevOps:
		return basic && user == "" && password == Token
	case forge.KindBitbucketCloud:
		return got == "Bearer "+Token || basic && strings.Contains(user, "@") && password == Token
	}
	return got == "Bearer "+Token
}

func (s *Server) unknownUser(w http.ResponseWriter) {
	if s.kind == forge.KindAzureDevOps { // it sends browsers to a page to sign in, and programs too
		w.Header().Set("Location", "https://login.example.com/signin")
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusFound)
		return
	}
	s.refuse(w, http.StatusUnauthorized, "Bad credentials")
}

// Config leads to the server, with the credential that it accepts.
func (s *Server) Config() forge.Config {
	base := map[forge.Kind]string{
		forge.KindGitLab: "/api/v4", forge.KindBitbucketCloud: "/2.0", forge.KindBitbucketDataCenter: "/git", forge.KindAzureDevOps: "/acme-inc",
	}[s.kind]
	return forge.Config{
		URL: s.URL + base, Owner: Owner, Repository: Repository, Web: s.URL + "/" + Owner + "/" + Repository,
		Credential: forge.Credential{Token: Token},
	}
}

// Intercept lets a function answer instead of the server; it returns false where the server shall. It is called with the
// server's lock held. Nil ends it.
func (s *Server) Intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Calls are all requests so far: `METHOD path`.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// Posts counts the requests that begin with a method and end with a text.
func (s *Server) Posts(method, end string) int {
	n := 0
	for _, call := range s.Calls() {
		if strings.HasPrefix(call, method+" ") && strings.HasSuffix(call, end) {
			n++
		}
	}
	return n
}

// Rows are the statuses of a commit as they were stored, oldest first.
func (s *Server) Rows(commit string) []Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Row
	for _, row := range s.rows {
		if row.Commit == commit {
			out = append(out, *row)
		}
	}
	return out
}

// AddCommit makes a commit that the forge knows.
func (s *Server) AddCommit() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addCommit()
}

func (s *Server) addCommit() string {
	sha := fmt.Sprintf("%040x", 0xabc000+s.nextID())
	sha = sha[20:] + sha[:20] // hashes differ in their first digits
	s.commits[sha] = true
	return sha
}

func (s *Server) nextID() int64 {
	s.ids++
	return s.ids
}

// at is the server's clock: it moves with each thing that is made.
func (s *Server) at() time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(s.ids) * time.Second)
}

// AddRow stores a status as somebody else would.
func (s *Server) AddRow(row Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row.ID, row.User = s.nextID(), Stranger
	row.At = s.at()
	s.rows = append(s.rows, &row)
}

// Store keeps a status as if the bot had posted it, from within [Server.Intercept]. GitHub and Gitea only.
func (s *Server) Store(in forge.Status) {
	s.store(&Row{Commit: in.Commit, Context: in.Context, State: string(in.State), Description: in.Description, URL: in.TargetURL, User: Bot})
}

// AddPull opens a pull request; empty fields are filled in.
func (s *Server) AddPull(p Pull) Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Number = int64(len(s.pulls) + 1)
	for _, field := range []struct {
		value *string
		text  string
	}{
		{&p.Title, fmt.Sprintf("Change %d", p.Number)}, {&p.Branch, fmt.Sprintf("topic-%d", p.Number)}, {&p.Base, Base},
		{&p.BaseHead, s.addCommit()}, {&p.MergeBase, s.addCommit()}, {&p.Head, s.addCommit()},
	} {
		if *field.value == "" {
			*field.value = field.text
		}
	}
	p.iterations = []string{s.addCommit(), p.Head}
	s.pulls = append(s.pulls, &p)
	return p
}

// AddComment writes one as a user.
func (s *Server) AddComment(number int64, user, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addComment(number, user, body)
}

func (s *Server) addComment(number int64, user, body string) *comment {
	c := &comment{id: s.nextID(), pull: number, user: user, body: body}
	s.comments = append(s.comments, c)
	return c
}

func (s *Server) commentsOf(pull int64) []*comment {
	var out []*comment
	for _, c := range s.comments {
		if c.pull == pull {
			out = append(out, c)
		}
	}
	return out
}

func (s *Server) findComment(id string) *comment {
	for _, c := range s.comments {
		if strconv.FormatInt(c.id, 10) == id {
			return c
		}
	}
	return nil
}

func (s *Server) removeComment(gone *comment) {
	var left []*comment
	for _, c := range s.comments {
		if c != gone {
			left = append(left, c)
		}
	}
	s.comments = left
}

func (s *Server) findPull(number string) *Pull {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(s.pulls) {
		return nil
	}
	return s.pulls[n-1]
}

// open are the pull requests on a branch, the newest first.
func (s *Server) open(base string) []*Pull {
	var out []*Pull
	for i := len(s.pulls) - 1; i >= 0; i-- {
		if p := s.pulls[i]; !p.Closed && (base == "" || p.Base == base) {
			out = append(out, p)
		}
	}
	return out
}

// own says that a comment may be changed: it is the bot's.
func (s *Server) own(w http.ResponseWriter, c *comment) bool {
	switch {
	case c == nil:
		s.refuse(w, http.StatusNotFound, "Not Found")
	case c.user != Bot:
		s.refuse(w, http.StatusForbidden, "not your comment")
	default:
		return true
	}
	return false
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// refuse answers in the form of the forge.
func (s *Server) refuse(w http.ResponseWriter, code int, text string) {
	switch s.kind {
	case forge.KindBitbucketCloud:
		reply(w, code, map[string]any{"type": "error", "error": map[string]any{"message": text}})
	case forge.KindBitbucketDataCenter:
		reply(w, code, map[string]any{"errors": []any{map[string]any{"context": nil, "message": text, "exceptionName": "X"}}})
	default:
		reply(w, code, map[string]any{"message": text})
	}
}

// decode reads a body of exactly the fields of T; others are refused.
func decode[T any](s *Server, w http.ResponseWriter, r *http.Request) (T, bool) {
	var in T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		s.refuse(w, http.StatusBadRequest, "cannot read the request: "+err.Error())
		return in, false
	}
	return in, true
}

// slice is a page of a list: of the size that was asked for, at most most.
func slice[T any](all []T, q url.Values, size string, most int) (page []T, number int, more bool) {
	n, _ := strconv.Atoi(q.Get(size))
	if n < 1 {
		n = 20
	}
	n = min(n, most)
	number, _ = strconv.Atoi(q.Get("page"))
	number = max(1, number)
	from, to := min((number-1)*n, len(all)), min(number*n, len(all))
	return all[from:to], number, to < len(all)
}

func within(w http.ResponseWriter, s *Server, code int, limits map[string][2]int) bool {
	for field, l := range limits {
		if l[0] > l[1] {
			s.refuse(w, code, fmt.Sprintf("%s is too long (maximum is %d characters)", field, l[1]))
			return false
		}
	}
	return true
}

func runes(text string) int { return len([]rune(text)) }
