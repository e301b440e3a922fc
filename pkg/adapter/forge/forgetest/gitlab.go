package forgetest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

type pipeline struct {
	ID     int64  `json:"id"`
	SHA    string `json:"sha"`
	Ref    string `json:"ref"`
	Source string `json:"source"`
}

// AddPipeline starts a pipeline of the forge's CI with jobs of these names, and returns its number. GitLab only.
func (s *Server) AddPipeline(commit, ref string, jobs ...string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.addPipeline(commit, ref, "push")
	for _, name := range jobs {
		s.rows = append(s.rows, &Row{
			ID: s.nextID(), Commit: commit, Context: name, State: "running", Ref: ref, User: Stranger, Pipeline: p, At: s.at(), ci: true,
		})
	}
	return p
}

func (s *Server) addPipeline(commit, ref, source string) int64 {
	p := pipeline{s.nextID(), commit, ref, source}
	s.pipelines = append(s.pipelines, p)
	return p.ID
}

func (s *Server) gitlab(mux *http.ServeMux) {
	const api = "/api/v4/projects/{project}"
	handle := func(pattern string, h http.HandlerFunc) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+api+path, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("project") != Owner+"/"+Repository {
				s.refuse(w, 404, "404 Project Not Found")
				return
			}
			h(w, r)
		})
	}
	handle("POST /statuses/{sha}", s.gitlabPost)
	handle("GET /repository/commits/{sha}/statuses", s.gitlabStatuses)
	handle("GET /pipelines", s.gitlabPipelines)
	handle("GET /merge_requests", s.gitlabPulls)
	handle("GET /merge_requests/{n}/pipelines", s.gitlabPullPipelines)
	handle("GET /repository/merge_base", s.gitlabMergeBase)
	handle("GET /merge_requests/{n}/notes", s.gitlabNotes)
	handle("POST /merge_requests/{n}/notes", s.gitlabNote)
	handle("PUT /merge_requests/{n}/notes/{id}", s.gitlabEdit)
	handle("DELETE /merge_requests/{n}/notes/{id}", s.deleteComment)
	mux.HandleFunc("GET /api/v4/user", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"id": userIDs[Bot]}) })
}

type gitlabInput struct {
	State       string `json:"state"`
	Ref         string `json:"ref"`
	Name        string `json:"name"`
	TargetURL   string `json:"target_url"`
	Description string `json:"description"`
	Pipeline    int64  `json:"pipeline_id"`
}

func (s *Server) gitlabPost(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[gitlabInput](s, w, r)
	sha := r.PathValue("sha")
	switch {
	case !ok:
	case !s.commits[sha]:
		s.refuse(w, 404, "404 Commit Not Found")
	case !slices.Contains([]string{"pending", "running", "success", "failed", "canceled", "skipped"}, in.State):
		s.refuse(w, 400, "state does not have a valid value")
	case !within(w, s, 400, map[string][2]int{
		"description": {runes(in.Description), 255}, "target_url": {len(in.TargetURL), 255}, "name": {runes(in.Name), 255},
	}):
	default:
		s.gitlabKeep(w, sha, in)
	}
}

// gitlabKeep is GitLab's own order: find or make the pipeline, find the row that is under way, move it or add one.
func (s *Server) gitlabKeep(w http.ResponseWriter, sha string, in gitlabInput) {
	id := s.gitlabPipeline(sha, in)
	if id == 0 {
		s.refuse(w, 404, "404 Pipeline Not Found")
		return
	}
	for _, p := range s.pipelines {
		if p.ID == id {
			in.Ref = p.Ref
		}
	}
	for i := len(s.rows) - 1; i >= 0; i-- {
		row := s.rows[i]
		if row.Pipeline != id || row.Context != in.Name {
			continue
		}
		if row.ci {
			reply(w, 400, map[string]any{"message": map[string]any{"name": []string{"has already been taken"}}})
			return
		}
		if row.User == Bot && row.Ref == in.Ref && (row.State == "pending" || row.State == "running") {
			s.gitlabMove(w, row, in)
			return
		}
	}
	row := &Row{Commit: sha, Context: in.Name, State: in.State, Description: in.Description, URL: in.TargetURL, User: Bot, Ref: in.Ref, Pipeline: id}
	s.store(row)
	reply(w, 201, gitlabRow(row))
}

func (s *Server) gitlabPipeline(sha string, in gitlabInput) int64 {
	for i := len(s.pipelines) - 1; i >= 0; i-- {
		p := s.pipelines[i]
		if p.SHA == sha && (in.Pipeline == p.ID || in.Pipeline == 0 && (in.Ref == "" || p.Ref == in.Ref)) {
			return p.ID
		}
	}
	if in.Pipeline != 0 {
		return 0
	}
	ref := in.Ref
	if ref == "" {
		ref = Base
	}
	return s.addPipeline(sha, ref, "external")
}

var gitlabEvents = map[string]string{"pending": "enqueue", "running": "run", "success": "success", "failed": "drop", "canceled": "cancel", "skipped": "skip"}

func (s *Server) gitlabMove(w http.ResponseWriter, row *Row, in gitlabInput) {
	if row.State == in.State || in.State == "pending" {
		s.refuse(w, 400, fmt.Sprintf("Cannot transition status via :%s from :%s (Reason(s): Status cannot transition)", gitlabEvents[in.State], row.State))
		return
	}
	row.State, row.Description, row.URL, row.At = in.State, in.Description, in.TargetURL, s.at()
	reply(w, 201, gitlabRow(row))
}

func gitlabRow(row *Row) map[string]any {
	return map[string]any{
		"id": row.ID, "sha": row.Commit, "ref": row.Ref, "status": row.State, "name": row.Context, "target_url": row.URL,
		"description": row.Description, "created_at": row.At, "finished_at": nil, "author": map[string]any{"id": userIDs[row.User]},
		"pipeline_id": row.Pipeline,
	}
}

// gitlabStatuses lists the newest rows of each pipeline and name: older ones count as retried.
func (s *Server) gitlabStatuses(w http.ResponseWriter, r *http.Request) {
	type place struct {
		pipeline int64
		name     string
	}
	newest := map[place]*Row{}
	for _, row := range s.rows {
		if row.Commit == r.PathValue("sha") {
			newest[place{row.Pipeline, row.Context}] = row
		}
	}
	var rows []*Row
	for _, row := range s.rows {
		if newest[place{row.Pipeline, row.Context}] == row {
			rows = append(rows, row)
		}
	}
	rows, _, _ = slice(rows, r.URL.Query(), "per_page", 100)
	out := []any{}
	for _, row := range rows {
		out = append(out, gitlabRow(row))
	}
	reply(w, 200, out)
}

func (s *Server) gitlabPipelines(w http.ResponseWriter, r *http.Request) {
	out := []pipeline{}
	for _, p := range slices.Backward(s.pipelines) {
		if p.SHA == r.URL.Query().Get("sha") && !strings.HasPrefix(p.Ref, "refs/merge-requests/") {
			out = append(out, p)
		}
	}
	reply(w, 200, out)
}

func (s *Server) gitlabPullPipelines(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "404 Not Found")
		return
	}
	out := []pipeline{}
	for _, line := range slices.Backward(s.pipelines) {
		if line.Ref == fmt.Sprintf("refs/merge-requests/%d/head", p.Number) {
			out = append(out, line)
		}
	}
	reply(w, 200, out)
}

func (s *Server) gitlabPulls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("state") != "opened" {
		s.refuse(w, 400, "the tests want opened ones")
		return
	}
	rows, _, _ := slice(s.open(q.Get("target_branch")), q, "per_page", 100)
	out := []any{}
	for _, p := range rows {
		from := 1
		if p.Fork {
			from = 2
		}
		out = append(out, map[string]any{
			"id": 9000 + p.Number, "iid": p.Number, "title": p.Title, "web_url": s.URL + "/mr", "sha": p.Head, "source_branch": p.Branch,
			"target_branch": p.Base, "source_project_id": from, "target_project_id": 1, "labels": append([]string{}, p.Labels...),
		})
	}
	reply(w, 200, out)
}

func (s *Server) gitlabMergeBase(w http.ResponseWriter, r *http.Request) {
	refs := r.URL.Query()["refs[]"]
	if len(refs) != 2 || s.mergeBase(refs[0], refs[1]) == "" {
		s.refuse(w, 404, "404 Merge Base Not Found")
		return
	}
	reply(w, 200, map[string]any{"id": s.mergeBase(refs[0], refs[1])})
}

func (s *Server) gitlabNotes(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "404 Not Found")
		return
	}
	rows, _, _ := slice(s.commentsOf(p.Number), r.URL.Query(), "per_page", 100)
	out := []any{map[string]any{"id": 1, "body": "added 1 commit", "system": true, "author": map[string]any{"id": userIDs[Bot]}}}
	if page, _ := strconv.Atoi(r.URL.Query().Get("page")); page > 1 {
		out = []any{}
	}
	for _, c := range rows {
		out = append(out, map[string]any{"id": c.id, "body": c.body, "system": false, "author": map[string]any{"id": userIDs[c.user]}})
	}
	reply(w, 200, out)
}

func (s *Server) gitlabNote(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[bodyOnly](s, w, r)
	if p := s.findPull(r.PathValue("n")); ok && p != nil && within(w, s, 400, map[string][2]int{"body": {runes(in.Body), 1_000_000}}) {
		reply(w, 201, map[string]any{"id": s.addComment(p.Number, Bot, in.Body).id})
	}
}

func (s *Server) gitlabEdit(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[bodyOnly](s, w, r)
	if c := s.findComment(r.PathValue("id")); ok && s.own(w, c) {
		c.body = in.Body
		reply(w, 200, map[string]any{"id": c.id})
	}
}
