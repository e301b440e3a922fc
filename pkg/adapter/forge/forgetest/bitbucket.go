package forgetest

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func (s *Server) cloud(mux *http.ServeMux) {
	const repo = "/2.0/repositories/" + Owner + "/" + Repository
	mux.HandleFunc("POST "+repo+"/commit/{sha}/statuses/build", s.cloudPost)
	mux.HandleFunc("GET "+repo+"/commit/{sha}/statuses", s.cloudStatuses)
	mux.HandleFunc("GET "+repo+"/pullrequests", s.cloudPulls)
	mux.HandleFunc("GET "+repo+"/pullrequests/{n}/commits", s.cloudCommits)
	mux.HandleFunc("GET "+repo+"/merge-base/{spec}", s.cloudMergeBase)
	mux.HandleFunc("GET /2.0/user", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, cloudUser(Bot)) })
	mux.HandleFunc("GET "+repo+"/pullrequests/{n}/comments", s.cloudComments)
	mux.HandleFunc("POST "+repo+"/pullrequests/{n}/comments", s.cloudComment)
	mux.HandleFunc("PUT "+repo+"/pullrequests/{n}/comments/{id}", s.cloudEdit)
	mux.HandleFunc("DELETE "+repo+"/pullrequests/{n}/comments/{id}", s.deleteComment)
	mux.HandleFunc("PUT "+repo+"/commit/{sha}/reports/{key}", s.cloudReport)
	mux.HandleFunc("DELETE "+repo+"/commit/{sha}/reports/{key}", s.deleteReport)
	mux.HandleFunc("POST "+repo+"/commit/{sha}/reports/{key}/annotations", s.cloudAnnotate)
}

func cloudUser(name string) map[string]any {
	return map[string]any{"uuid": fmt.Sprintf("{user-%d}", userIDs[name]), "nickname": name}
}

func (s *Server) cloudPost(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Key         string `json:"key"`
		State       string `json:"state"`
		Name        string `json:"name"`
		Description string `json:"description"`
		URL         string `json:"url"`
		RefName     string `json:"refname"`
	}](s, w, r)
	sha := r.PathValue("sha")
	switch {
	case !ok:
	case !s.commits[sha]:
		s.refuse(w, 404, "Commit not found")
	case in.Key == "" || !slices.Contains([]string{"SUCCESSFUL", "FAILED", "INPROGRESS", "STOPPED"}, in.State):
		s.refuse(w, 400, "key and state are required")
	case !isURL(in.URL):
		s.refuse(w, 400, "url: Enter a valid URL.")
	case within(w, s, 400, map[string][2]int{"key": {runes(in.Key), 40}, "name": {runes(in.Name), 255}, "description": {runes(in.Description), 255}}):
		row := s.replace(Row{Commit: sha, Context: in.Key, State: in.State, Description: in.Description, URL: in.URL, Ref: in.RefName, User: in.Name})
		reply(w, 201, cloudRow(row))
	}
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

// replace keeps one row for each key. User holds the name that is shown.
func (s *Server) replace(row Row) *Row {
	for _, had := range s.rows {
		if had.Commit == row.Commit && had.Context == row.Context {
			row.ID, s.ids = had.ID, s.ids+1
			row.At = s.at()
			*had = row
			return had
		}
	}
	row.ID = s.nextID()
	row.At = s.at()
	s.rows = append(s.rows, &row)
	return &row
}

func cloudRow(row *Row) map[string]any {
	return map[string]any{
		"key": row.Context, "name": row.User, "state": row.State, "description": row.Description, "url": row.URL, "refname": row.Ref,
		"created_on": row.At, "updated_on": row.At, "uuid": "{row}", "type": "build",
	}
}

// cloudList is a request for a list, whose pages have at most most entries.
type cloudList struct {
	s    *Server
	w    http.ResponseWriter
	r    *http.Request
	most int
}

// cloudPage answers a page with the whole address of the next.
func cloudPage[T any](l cloudList, all []T, show func(T) any) {
	s, w, r, most := l.s, l.w, l.r, l.most
	q := r.URL.Query()
	if n, _ := strconv.Atoi(q.Get("pagelen")); n > most {
		s.refuse(w, 400, "Invalid pagelen")
		return
	}
	page, number, more := slice(all, q, "pagelen", most)
	values := []any{}
	for _, v := range page {
		values = append(values, show(v))
	}
	out := map[string]any{"values": values, "pagelen": most, "page": number}
	if more {
		q.Set("page", strconv.Itoa(number+1))
		out["next"] = s.URL + r.URL.Path + "?" + q.Encode()
	}
	reply(w, 200, out)
}

func (s *Server) rowsOf(sha string) []*Row {
	var rows []*Row
	for _, row := range s.rows {
		if row.Commit == sha {
			rows = append(rows, row)
		}
	}
	return rows
}

func (s *Server) cloudStatuses(w http.ResponseWriter, r *http.Request) {
	sha := r.PathValue("sha")
	if !s.commits[sha] {
		s.refuse(w, 404, "Commit not found")
		return
	}
	cloudPage(cloudList{s, w, r, 100}, s.rowsOf(sha), func(row *Row) any { return cloudRow(row) })
}

func (s *Server) cloudPulls(w http.ResponseWriter, r *http.Request) {
	base, ok := strings.CutPrefix(r.URL.Query().Get("q"), "destination.branch.name=")
	name, err := strconv.Unquote(base)
	if !ok || err != nil || r.URL.Query().Get("state") != "OPEN" {
		s.refuse(w, 400, "Invalid filter")
		return
	}
	cloudPage(cloudList{s, w, r, 50}, s.open(name), func(p *Pull) any {
		from := "{1}"
		if p.Fork {
			from = "{2}"
		}
		return map[string]any{
			"id": p.Number, "title": p.Title, "links": map[string]any{"html": map[string]any{"href": s.URL + "/pr"}},
			"source":      cloudSide(p.Branch, p.Head, from),
			"destination": cloudSide(p.Base, p.BaseHead, "{1}"),
		}
	})
}

// cloudSide shows twelve digits of a hash, as the real one does.
func cloudSide(branch, sha, repo string) map[string]any {
	return map[string]any{
		"branch": map[string]any{"name": branch}, "commit": map[string]any{"hash": sha[:12]}, "repository": map[string]any{"uuid": repo},
	}
}

func (s *Server) cloudCommits(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "Not found")
		return
	}
	cloudPage(cloudList{s, w, r, 100}, []string{p.Head, p.MergeBase}, func(sha string) any { return map[string]any{"hash": sha} })
}

func (s *Server) cloudMergeBase(w http.ResponseWriter, r *http.Request) {
	base, head, _ := strings.Cut(r.PathValue("spec"), "..")
	sha := s.mergeBase(base, head)
	if sha == "" {
		s.refuse(w, 404, "Commit not found")
		return
	}
	reply(w, 200, map[string]any{"hash": sha, "type": "commit"})
}

func (s *Server) cloudComments(w http.ResponseWriter, r *http.Request) {
	p := s.findPull(r.PathValue("n"))
	if p == nil {
		s.refuse(w, 404, "Not found")
		return
	}
	cloudPage(cloudList{s, w, r, 100}, s.commentsOf(p.Number), func(c *comment) any {
		return map[string]any{"id": c.id, "content": map[string]any{"raw": c.body, "html": "x"}, "user": cloudUser(c.user), "deleted": false}
	})
}

type cloudText struct {
	Content struct {
		Raw string `json:"raw"`
	} `json:"content"`
}

func (s *Server) cloudComment(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[cloudText](s, w, r)
	p := s.findPull(r.PathValue("n"))
	if ok && p != nil && within(w, s, 400, map[string][2]int{"content": {runes(in.Content.Raw), 32768}}) {
		reply(w, 201, map[string]any{"id": s.addComment(p.Number, Bot, in.Content.Raw).id})
	}
}

func (s *Server) cloudEdit(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[cloudText](s, w, r)
	if c := s.findComment(r.PathValue("id")); ok && s.own(w, c) {
		c.body = in.Content.Raw
		reply(w, 200, map[string]any{"id": c.id})
	}
}

func (s *Server) cloudReport(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		Title      string `json:"title"`
		Details    string `json:"details"`
		Reporter   string `json:"reporter"`
		ReportType string `json:"report_type"`
		Result     string `json:"result"`
	}](s, w, r)
	switch {
	case !ok:
	case !s.commits[r.PathValue("sha")]:
		s.refuse(w, 404, "Commit not found")
	case in.Title == "" || in.Details == "" || !slices.Contains([]string{"SECURITY", "COVERAGE", "TEST", "BUG"}, in.ReportType) ||
		!slices.Contains([]string{"PASSED", "FAILED", "PENDING"}, in.Result):
		s.refuse(w, 400, "the report is not complete")
	default:
		s.reports[r.PathValue("sha")+r.PathValue("key")] = &report{title: in.Title, result: in.Result}
		reply(w, 200, map[string]any{})
	}
}

func (s *Server) deleteReport(w http.ResponseWriter, r *http.Request) {
	delete(s.reports, r.PathValue("sha")+r.PathValue("key"))
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) cloudAnnotate(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[[]struct {
		ExternalID string `json:"external_id"`
		Type       string `json:"annotation_type"`
		Path       string `json:"path"`
		Line       int    `json:"line"`
		Summary    string `json:"summary"`
		Severity   string `json:"severity"`
	}](s, w, r)
	rep := s.reports[r.PathValue("sha")+r.PathValue("key")]
	switch {
	case !ok:
	case rep == nil:
		s.refuse(w, 404, "Report not found")
	case len(in) == 0 || len(in) > 100:
		s.refuse(w, 400, "between 1 and 100 annotations are allowed in one request")
	default:
		for _, a := range in {
			if a.ExternalID == "" || a.Summary == "" || runes(a.Summary) > 450 || !slices.Contains([]string{"VULNERABILITY", "CODE_SMELL", "BUG"}, a.Type) {
				s.refuse(w, 400, "an annotation is not complete")
				return
			}
			rep.annotations = append(rep.annotations, Note{a.Path, a.Line, a.Summary, a.Severity == "HIGH"})
		}
		reply(w, 200, in)
	}
}
