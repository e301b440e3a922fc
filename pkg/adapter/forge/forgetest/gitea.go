package forgetest

import (
	"fmt"
	"net/http"
	"slices"
)

// giteaPage is MAX_RESPONSE_ITEMS of a careful administrator.
const giteaPage = 30

func (s *Server) gitea(mux *http.ServeMux) {
	const repo = "/api/v1/repos/" + Owner + "/" + Repository
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", s.giteaPost)
	mux.HandleFunc("GET "+repo+"/commits/{sha}/statuses", s.giteaStatuses)
	mux.HandleFunc("GET "+repo+"/git/commits/{sha}", s.giteaCommit)
	mux.HandleFunc("GET "+repo+"/pulls", s.giteaPulls)
	mux.HandleFunc("GET /api/v1/user", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"login": Bot, "id": userIDs[Bot]})
	})
	mux.HandleFunc("GET "+repo+"/issues/{n}/comments", s.githubComments)
	mux.HandleFunc("POST "+repo+"/issues/{n}/comments", s.githubComment)
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", s.githubEdit)
	mux.HandleFunc("DELETE "+repo+"/issues/comments/{id}", s.deleteComment)
}

// giteaPost stores any state, and answers 500 for a commit that it does not have.
func (s *Server) giteaPost(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[struct {
		State       string `json:"state"`
		TargetURL   string `json:"target_url"`
		Description string `json:"description"`
		Context     string `json:"context"`
	}](s, w, r)
	switch {
	case !ok:
	case !s.commits[r.PathValue("sha")]:
		s.refuse(w, 500, "object does not exist")
	default:
		row := &Row{Commit: r.PathValue("sha"), Context: in.Context, State: in.State, Description: in.Description, URL: in.TargetURL, User: Bot}
		reply(w, 201, s.store(row))
	}
}

// giteaStatuses lists in an order of its own: rows of one second come in any.
func (s *Server) giteaStatuses(w http.ResponseWriter, r *http.Request) {
	var mine []*Row
	for _, row := range s.rows {
		if row.Commit == r.PathValue("sha") {
			mine = append(mine, row)
		}
	}
	slices.SortStableFunc(mine, func(a, b *Row) int { return int(b.ID%2 - a.ID%2) })
	page, number, more := slice(mine, r.URL.Query(), "limit", giteaPage)
	s.link(w, r, number, more)
	out := []any{}
	for _, row := range page {
		out = append(out, shown(row))
	}
	reply(w, 200, out)
}

func (s *Server) link(w http.ResponseWriter, r *http.Request, number int, more bool) {
	if more {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?page=%d>; rel="next"`, s.URL, r.URL.Path, number+1))
	}
}

func (s *Server) giteaCommit(w http.ResponseWriter, r *http.Request) {
	if !s.commits[r.PathValue("sha")] {
		s.refuse(w, 404, "object does not exist")
		return
	}
	reply(w, 200, map[string]any{"sha": r.PathValue("sha")})
}

func (s *Server) giteaPulls(w http.ResponseWriter, r *http.Request) {
	page, number, more := slice(s.open(""), r.URL.Query(), "limit", giteaPage)
	s.link(w, r, number, more)
	out := []any{}
	for _, p := range page {
		out = append(out, s.hubPull(p))
	}
	reply(w, 200, out)
}
