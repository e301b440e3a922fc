package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) azure(mux *http.ServeMux) {
	const org = "/acme-inc"
	const repo = org + "/" + Owner + "/_apis/git/repositories/" + Repository
	handle := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Query().Get("api-version"), "7.1") {
				s.refuse(w, 400, "No api-version was supplied")
				return
			}
			h(w, r)
		})
	}
	handle("POST "+repo+"/commits/{sha}/statuses", s.azurePost)
	handle("GET "+repo+"/commits/{sha}/statuses", s.azureStatuses)
	handle("GET "+repo+"/commits/{sha}/mergebases", s.azureMergeBase)
	handle("GET "+repo+"/pullrequests", s.azurePulls)
	handle("GET "+repo+"/pullRequests/{n}/iterations", s.azureIterations)
	handle("POST "+repo+"/pullRequests/{n}/statuses", s.azurePullStatus)
	handle("GET "+repo+"/pullRequests/{n}/threads", s.azureThreads)
	handle("POST "+repo+"/pullRequests/{n}/threads", s.azureThread)
	handle("PATCH "+repo+"/pullRequests/{n}/threads/{thread}/comments/{id}", s.azureEdit)
	handle("DELETE "+repo+"/pullRequests/{n}/threads/{thread}/comments/{id}", s.azureDelete)
	handle("GET "+org+"/_apis/connectionData", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"authenticatedUser": azureUser(Bot)})
	})
}

func azureUser(name string) map[string]any {
	return map[string]any{"id": "user-" + strconv.FormatInt(userIDs[name], 10), "displayName": name}
}

type azureInput struct {
	State       string `json:"state"`
	Description string `json:"description"`
	Context     struct {
		Genre string `json:"genre"`
		Name  string `json:"name"`
	} `json:"context"`
	TargetURL   string `json:"targetUrl"`
	IterationID int64  `json:"iterationId"`
}

func (s *Server) azureStatus(w http.ResponseWriter, r *http.Request, row Row) (azureInput, bool) {
	in, ok := decode[azureInput](s, w, r)
	states := []string{"notSet", "notApplicable", "pending", "succeeded", "failed", "error"}
	switch {
	case !ok:
	case !slices.Contains(states, in.State) || in.Context.Name == "":
		s.refuse(w, 400, "state and context.name are required")
	case row.Commit != "" && in.IterationID != 0:
		s.refuse(w, 400, "a commit has no iterations")
	default:
		row.Context, row.State, row.Description, row.URL = in.Context.Genre+"|"+in.Context.Name, in.State, in.Description, in.TargetURL
		row.User, row.IterationN = Bot, in.IterationID
		s.store(&row)
		reply(w, 201, map[string]any{"id": row.ID})
	}
	return in, ok
}

func (s *Server) azurePost(w http.ResponseWriter, r *http.Request) {
	sha := r.PathValue("sha")
	if !s.commits[sha] {
		s.refuse(w, 404, "TF401175: The version descriptor <Commit: "+sha+" > could not be resolved to a version in the repository")
		return
	}
	s.azureStatus(w, r, Row{Commit: sha})
}

func (s *Server) azurePullStatus(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "TF401180: The requested pull request was not found")
		return
	}
	s.azureStatus(w, r, Row{PullRequest: p.Number})
}

func (s *Server) azureStatuses(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	rows := s.newestRows(r.PathValue("sha"), false)
	skip, _ := strconv.Atoi(q.Get("skip"))
	top, _ := strconv.Atoi(q.Get("top"))
	rows = rows[min(skip, len(rows)):min(skip+top, len(rows))]
	out := []any{}
	for _, row := range rows {
		genre, name, _ := strings.Cut(row.Context, "|")
		out = append(out, map[string]any{
			"id": row.ID, "state": row.State, "description": row.Description, "targetUrl": row.URL, "creationDate": row.At,
			"context": map[string]any{"genre": genre, "name": name},
		})
	}
	s.azureList(w, out)
}

func (s *Server) azureList(w http.ResponseWriter, out []any) {
	reply(w, 200, map[string]any{"count": len(out), "value": out})
}

func (s *Server) azureMergeBase(w http.ResponseWriter, r *http.Request) {
	sha := s.mergeBase(r.URL.Query().Get("otherCommitId"), r.PathValue("sha"))
	if sha == "" {
		s.azureList(w, []any{})
		return
	}
	s.azureList(w, []any{map[string]any{"commitId": sha}})
}

func (s *Server) azurePulls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	base, found := strings.CutPrefix(q.Get("searchCriteria.targetRefName"), "refs/heads/")
	if !found || q.Get("searchCriteria.status") != "active" {
		s.refuse(w, 400, "the tests want active ones on a branch")
		return
	}
	rows := s.open(base)
	skip, _ := strconv.Atoi(q.Get("$skip"))
	top, _ := strconv.Atoi(q.Get("$top"))
	rows = rows[min(skip, len(rows)):min(skip+top, len(rows))]
	out := []any{}
	for _, p := range rows {
		labels := []any{}
		for _, l := range p.Labels {
			labels = append(labels, map[string]any{"name": l, "active": true})
		}
		row := map[string]any{
			"pullRequestId": p.Number, "title": p.Title, "sourceRefName": "refs/heads/" + p.Branch, "targetRefName": "refs/heads/" + p.Base,
			"lastMergeSourceCommit": map[string]any{"commitId": p.Head}, "lastMergeTargetCommit": map[string]any{"commitId": p.BaseHead}, "labels": labels,
		}
		if p.Fork {
			row["forkSource"] = map[string]any{"name": "refs/heads/" + p.Branch, "repository": map[string]any{"id": "2"}}
		}
		out = append(out, row)
	}
	s.azureList(w, out)
}

func (s *Server) azureIterations(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "TF401180: The requested pull request was not found")
		return
	}
	out := []any{}
	for i, sha := range p.iterations {
		out = append(out, map[string]any{"id": i + 1, "sourceRefCommit": map[string]any{"commitId": sha}})
	}
	s.azureList(w, out)
}

func (s *Server) azureThreads(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "TF401180: The requested pull request was not found")
		return
	}
	out := []any{map[string]any{"id": 1, "status": nil, "isDeleted": false, "comments": []any{}}}
	for _, c := range s.commentsOf(p.Number) {
		out = append(out, map[string]any{"id": c.id, "status": "closed", "isDeleted": false, "comments": []any{map[string]any{
			"id": 1, "content": c.body, "commentType": "text", "author": azureUser(c.user),
		}}})
	}
	s.azureList(w, out)
}

func (s *Server) azureThread(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Status   string `json:"status"`
		Comments []struct {
			Parent  int    `json:"parentCommentId"`
			Content string `json:"content"`
			Type    string `json:"commentType"`
		} `json:"comments"`
	}](s, w, r)
	p := s.findPull(r.PathValue("n"))
	switch {
	case !ok || p == nil:
	case len(in.Comments) != 1 || in.Status != "closed":
		s.refuse(w, 400, "an open thread blocks where comments must be resolved")
	case within(w, s, 400, map[string][2]int{"content": {runes(in.Comments[0].Content), 150_000}}):
		reply(w, 200, map[string]any{"id": s.addComment(p.Number, Bot, in.Comments[0].Content).id})
	}
}

func (s *Server) azureEdit(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Content string `json:"content"`
	}](s, w, r)
	if c := s.findComment(r.PathValue("thread")); ok && s.own(w, c) {
		c.body = in.Content
		reply(w, 200, map[string]any{"id": 1})
	}
}

func (s *Server) azureDelete(w http.ResponseWriter, r *http.Request) {
	if c := s.findComment(r.PathValue("thread")); s.own(w, c) {
		s.removeComment(c)
		w.WriteHeader(http.StatusOK)
	}
}
