package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) dataCenter(mux *http.ServeMux) {
	const base = "/git/rest"
	const repo = base + "/api/latest/projects/" + Owner + "/repos/" + Repository
	const insights = base + "/insights/latest/projects/" + Owner + "/repos/" + Repository + "/commits/{sha}/reports/{key}"
	handle := func(pattern string, h http.HandlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Header.Get("X-Atlassian-Token") != "no-check" {
				s.refuse(w, 403, "XSRF check failed")
				return
			}
			w.Header().Set("X-AUSERNAME", Bot)
			h(w, r)
		})
	}
	handle("GET "+repo, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"slug": Repository}) })
	handle("POST "+repo+"/commits/{sha}/builds", s.dcPost)
	handle("GET "+base+"/build-status/latest/commits/{sha}", s.dcStatuses)
	handle("GET "+repo+"/pull-requests", s.dcPulls)
	handle("GET "+repo+"/pull-requests/{n}/merge-base", s.dcMergeBase)
	handle("GET "+repo+"/pull-requests/{n}/activities", s.dcActivities)
	handle("POST "+repo+"/pull-requests/{n}/comments", s.dcComment)
	handle("GET "+repo+"/pull-requests/{n}/comments/{id}", s.dcGet)
	handle("PUT "+repo+"/pull-requests/{n}/comments/{id}", s.dcEdit)
	handle("DELETE "+repo+"/pull-requests/{n}/comments/{id}", s.dcDelete)
	handle("PUT "+insights, s.dcReport)
	handle("DELETE "+insights, s.deleteReport)
	handle("POST "+insights+"/annotations", s.dcAnnotate)
}

func (s *Server) dcPost(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Key         string `json:"key"`
		State       string `json:"state"`
		Name        string `json:"name"`
		Description string `json:"description"`
		URL         string `json:"url"`
		Ref         string `json:"ref"`
	}](s, w, r)
	sha := r.PathValue("sha")
	switch {
	case !ok:
	case !s.commits[sha]:
		s.refuse(w, 404, "Commit '"+sha+"' does not exist in repository")
	case in.Key == "" || !slices.Contains([]string{"INPROGRESS", "SUCCESSFUL", "FAILED", "CANCELLED", "UNKNOWN"}, in.State):
		s.refuse(w, 400, "key and state are required")
	case !isURL(in.URL):
		s.refuse(w, 400, "url is required")
	case in.Ref != "" && !strings.HasPrefix(in.Ref, "refs/"):
		s.refuse(w, 400, "ref must be fully qualified")
	case within(w, s, 400, map[string][2]int{
		"key": {runes(in.Key), 255}, "name": {runes(in.Name), 255}, "description": {runes(in.Description), 255}, "url": {runes(in.URL), 450},
	}):
		s.replace(Row{Commit: sha, Context: in.Key, State: in.State, Description: in.Description, URL: in.URL, Ref: in.Ref, User: in.Name})
		w.WriteHeader(http.StatusNoContent)
	}
}

func dcPage[T any](w http.ResponseWriter, r *http.Request, all []T, show func(T) any) {
	start, _ := strconv.Atoi(r.URL.Query().Get("start"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit < 1 {
		limit = 25
	}
	from, to := min(start, len(all)), min(start+limit, len(all))
	values := []any{}
	for _, v := range all[from:to] {
		values = append(values, show(v))
	}
	out := map[string]any{"values": values, "start": from, "size": to - from, "limit": limit, "isLastPage": to == len(all)}
	if to < len(all) {
		out["nextPageStart"] = to
	}
	reply(w, 200, out)
}

func (s *Server) dcStatuses(w http.ResponseWriter, r *http.Request) {
	dcPage(w, r, s.rowsOf(r.PathValue("sha")), func(row *Row) any {
		return map[string]any{
			"key": row.Context, "name": row.User, "state": row.State, "description": row.Description, "url": row.URL, "dateAdded": row.At.UnixMilli(),
		}
	})
}

func (s *Server) dcPulls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	base, found := strings.CutPrefix(q.Get("at"), "refs/heads/")
	if !found || q.Get("direction") != "INCOMING" || q.Get("state") != "OPEN" {
		s.refuse(w, 400, "the tests want incoming ones on a branch")
		return
	}
	dcPage(w, r, s.open(base), func(p *Pull) any {
		from := 1
		if p.Fork {
			from = 2
		}
		return map[string]any{
			"id": p.Number, "version": 0, "title": p.Title, "links": map[string]any{"self": []any{map[string]any{"href": s.URL + "/pr"}}},
			"fromRef": map[string]any{"id": "refs/heads/" + p.Branch, "latestCommit": p.Head, "repository": map[string]any{"id": from}},
			"toRef":   map[string]any{"id": "refs/heads/" + p.Base, "latestCommit": p.BaseHead, "repository": map[string]any{"id": 1}},
		}
	})
}

func (s *Server) dcMergeBase(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "Pull request does not exist")
		return
	}
	reply(w, 200, map[string]any{"id": p.MergeBase})
}

func dcShown(c *comment) map[string]any {
	return map[string]any{"id": c.id, "version": c.version, "text": c.body, "author": map[string]any{"name": c.user, "id": userIDs[c.user]}}
}

// dcActivities lists all that happened, the newest first.
func (s *Server) dcActivities(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "Pull request does not exist")
		return
	}
	all := []any{map[string]any{"id": 1, "action": "OPENED"}}
	for _, c := range s.commentsOf(p.Number) {
		all = append(all, map[string]any{"id": 100 + c.id, "action": "COMMENTED", "commentAction": "ADDED", "comment": dcShown(c)})
	}
	slices.Reverse(all)
	dcPage(w, r, all, func(v any) any { return v })
}

type dcText struct {
	Text    string `json:"text"`
	Version *int   `json:"version"`
}

func (s *Server) dcComment(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[dcText](s, w, r)
	p := s.findPull(r.PathValue("n"))
	if ok && p != nil && within(w, s, 400, map[string][2]int{"text": {runes(in.Text), 32768}}) {
		reply(w, 201, dcShown(s.addComment(p.Number, Bot, in.Text)))
	}
}

func (s *Server) dcGet(w http.ResponseWriter, r *http.Request) {
	c := s.findComment(r.PathValue("id"))
	if c == nil {
		s.refuse(w, 404, "Comment does not exist")
		return
	}
	reply(w, 200, dcShown(c))
}

func (s *Server) dcEdit(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[dcText](s, w, r)
	c := s.findComment(r.PathValue("id"))
	switch {
	case !ok || !s.own(w, c):
	case in.Version == nil || *in.Version != c.version:
		s.refuse(w, 409, "the comment has another version")
	default:
		c.body = in.Text
		c.version++
		reply(w, 200, dcShown(c))
	}
}

func (s *Server) dcDelete(w http.ResponseWriter, r *http.Request) {
	c := s.findComment(r.PathValue("id"))
	switch {
	case !s.own(w, c):
	case r.URL.Query().Get("version") != strconv.Itoa(c.version):
		s.refuse(w, 409, "the comment has another version")
	default:
		s.removeComment(c)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) dcReport(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Title    string `json:"title"`
		Details  string `json:"details"`
		Reporter string `json:"reporter"`
		Result   string `json:"result"`
	}](s, w, r)
	switch {
	case !ok:
	case in.Title == "" || runes(in.Title) > 450 || in.Result != "PASS" && in.Result != "FAIL":
		s.refuse(w, 400, "the report is not complete")
	default:
		s.reports[r.PathValue("sha")+r.PathValue("key")] = &report{title: in.Title, result: in.Result}
		reply(w, 200, map[string]any{})
	}
}

func (s *Server) dcAnnotate(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Annotations []struct {
			Path     string `json:"path"`
			Line     int    `json:"line"`
			Message  string `json:"message"`
			Severity string `json:"severity"`
			Type     string `json:"type"`
		} `json:"annotations"`
	}](s, w, r)
	rep := s.reports[r.PathValue("sha")+r.PathValue("key")]
	switch {
	case !ok:
	case rep == nil:
		s.refuse(w, 404, "Report does not exist")
	case len(in.Annotations) == 0 || len(in.Annotations) > 1000:
		s.refuse(w, 400, "between 1 and 1000 annotations are allowed")
	default:
		for _, a := range in.Annotations {
			if a.Message == "" || runes(a.Message) > 2000 || !slices.Contains([]string{"LOW", "MEDIUM", "HIGH"}, a.Severity) {
				s.refuse(w, 400, "an annotation is not complete")
				return
			}
			rep.annotations = append(rep.annotations, Note{a.Path, a.Line, a.Message, a.Severity == "HIGH"})
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
