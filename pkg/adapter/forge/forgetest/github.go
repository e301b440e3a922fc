package forgetest

import (
	"net/http"
	"slices"
	"strings"
)

const githubRows = 1000 // for each commit and context

func (s *Server) github(mux *http.ServeMux) {
	const repo = "/repos/" + Owner + "/" + Repository
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", s.githubPost)
	mux.HandleFunc("GET "+repo+"/commits/{sha}/status", s.githubStatuses)
	mux.HandleFunc("GET "+repo+"/pulls", s.githubPulls)
	mux.HandleFunc("GET "+repo+"/compare/{spec}", s.githubCompare)
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"login": Bot, "id": userIDs[Bot]})
	})
	mux.HandleFunc("GET "+repo+"/issues/{n}/comments", s.githubComments)
	mux.HandleFunc("POST "+repo+"/issues/{n}/comments", s.githubComment)
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", s.githubEdit)
	mux.HandleFunc("DELETE "+repo+"/issues/comments/{id}", s.deleteComment)
	mux.HandleFunc("POST "+repo+"/check-runs", s.githubRun)
	mux.HandleFunc("PATCH "+repo+"/check-runs/{id}", s.githubExtend)
	mux.HandleFunc("GET "+repo+"/commits/{sha}/check-runs", s.githubRuns)
}

func (s *Server) githubPost(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		State       string  `json:"state"`
		Context     *string `json:"context"`
		Description string  `json:"description"`
		TargetURL   *string `json:"target_url"`
	}](s, w, r)
	if !ok {
		return
	}
	sha, name, target := r.PathValue("sha"), "default", ""
	if in.Context != nil {
		name = *in.Context
	}
	if in.TargetURL != nil {
		target = *in.TargetURL
	}
	had := 0
	for _, row := range s.rows {
		if row.Commit == sha && strings.EqualFold(row.Context, name) {
			had++
		}
	}
	switch {
	case !s.commits[sha]:
		s.refuse(w, 422, "No commit found for SHA: "+sha)
	case !slices.Contains([]string{"error", "failure", "pending", "success"}, in.State):
		s.refuse(w, 422, "Validation Failed")
	case had >= githubRows:
		reply(w, 422, map[string]any{"message": "Validation Failed", "errors": []any{map[string]any{
			"resource": "Status", "code": "custom", "message": "This SHA and context has reached the maximum number of statuses.",
		}}})
	case in.TargetURL != nil && !strings.HasPrefix(target, "http"):
		s.refuse(w, 422, "target_url is not a URL")
	case within(w, s, 422, map[string][2]int{"description": {runes(in.Description), 140}, "context": {runes(name), 255}}):
		row := &Row{Commit: sha, Context: name, State: in.State, Description: in.Description, URL: target, User: Bot}
		reply(w, 201, s.store(row))
	}
}

// store keeps a row and returns it as GitHub and Gitea show it.
func (s *Server) store(row *Row) map[string]any {
	row.ID = s.nextID()
	row.At = s.at()
	s.rows = append(s.rows, row)
	return shown(row)
}

func shown(row *Row) map[string]any {
	return map[string]any{
		"id": row.ID, "state": row.State, "status": row.State, "context": row.Context, "description": row.Description,
		"target_url": row.URL, "created_at": row.At,
	}
}

// newestRows are the newest of each context; fold says that case does not tell contexts apart.
func (s *Server) newestRows(sha string, fold bool) []*Row {
	seen := map[string]bool{}
	var out []*Row
	for i := len(s.rows) - 1; i >= 0; i-- {
		key := s.rows[i].Context
		if fold {
			key = strings.ToLower(key)
		}
		if s.rows[i].Commit == sha && !seen[key] {
			seen[key] = true
			out = append(out, s.rows[i])
		}
	}
	return out
}

func (s *Server) githubStatuses(w http.ResponseWriter, r *http.Request) {
	sha := r.PathValue("sha")
	if !s.commits[sha] {
		s.refuse(w, 422, "No commit found for SHA: "+sha)
		return
	}
	rows, _, _ := slice(s.newestRows(sha, true), r.URL.Query(), "per_page", 100)
	statuses := []any{}
	for _, row := range rows {
		statuses = append(statuses, shown(row))
	}
	reply(w, 200, map[string]any{"state": "pending", "sha": sha, "statuses": statuses})
}

func (s *Server) githubPulls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("state") != "open" {
		s.refuse(w, 422, "the tests want open ones")
		return
	}
	rows, _, _ := slice(s.open(q.Get("base")), q, "per_page", 100)
	out := []any{}
	for _, p := range rows {
		out = append(out, s.hubPull(p))
	}
	reply(w, 200, out)
}

// hubPull is a pull request as GitHub and Gitea show it.
func (s *Server) hubPull(p *Pull) map[string]any {
	from := int64(1)
	if p.Fork {
		from = 2
	}
	labels := []any{}
	for _, l := range p.Labels {
		labels = append(labels, map[string]any{"id": 1, "name": l})
	}
	return map[string]any{
		"number": p.Number, "title": p.Title, "html_url": s.URL + "/pull", "state": "open", "labels": labels, "merge_base": p.MergeBase,
		"head": map[string]any{"ref": p.Branch, "sha": p.Head, "repo_id": from, "repo": map[string]any{"id": from}},
		"base": map[string]any{"ref": p.Base, "sha": p.BaseHead, "repo_id": 1, "repo": map[string]any{"id": 1}},
	}
}

// mergeBase finds the pull request between two commits, or branches.
func (s *Server) mergeBase(base, head string) string {
	for _, p := range s.pulls {
		if p.Head == head && (p.Base == base || p.BaseHead == base) {
			return p.MergeBase
		}
	}
	return ""
}

func (s *Server) githubCompare(w http.ResponseWriter, r *http.Request) {
	base, head, found := strings.Cut(r.PathValue("spec"), "...")
	sha := s.mergeBase(base, head)
	if !found || sha == "" {
		s.refuse(w, 404, "No common ancestor")
		return
	}
	reply(w, 200, map[string]any{"merge_base_commit": map[string]any{"sha": sha}})
}

func hubComment(c *comment) map[string]any {
	out := map[string]any{"id": c.id, "body": c.body, "user": map[string]any{"login": c.user, "id": userIDs[c.user]}}
	if c.user == Bot {
		out["performed_via_github_app"] = map[string]any{"id": 4711}
	}
	return out
}

func (s *Server) githubComments(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "Not Found")
		return
	}
	rows := s.commentsOf(p.Number)
	if s.kind == "github" {
		rows, _, _ = slice(rows, r.URL.Query(), "per_page", 100)
	}
	out := []any{}
	for _, c := range rows {
		out = append(out, hubComment(c))
	}
	reply(w, 200, out)
}

type bodyOnly struct {
	Body string `json:"body"`
}

func (s *Server) githubComment(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[bodyOnly](s, w, r)
	p := s.findPull(r.PathValue("n"))
	switch {
	case !ok:
	case p == nil:
		s.refuse(w, 404, "Not Found")
	case in.Body == "":
		s.refuse(w, 422, "Body can't be blank")
	case within(w, s, 422, map[string][2]int{"body": {runes(in.Body), 65536}}):
		reply(w, 201, hubComment(s.addComment(p.Number, Bot, in.Body)))
	}
}

func (s *Server) githubEdit(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[bodyOnly](s, w, r)
	c := s.findComment(r.PathValue("id"))
	if ok && s.own(w, c) && within(w, s, 422, map[string][2]int{"body": {runes(in.Body), 65536}}) {
		c.body = in.Body
		reply(w, 200, hubComment(c))
	}
}

func (s *Server) deleteComment(w http.ResponseWriter, r *http.Request) {
	if c := s.findComment(r.PathValue("id")); s.own(w, c) {
		s.removeComment(c)
		w.WriteHeader(http.StatusNoContent)
	}
}
