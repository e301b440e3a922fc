package forgetest

import (
	"net/http"
	"slices"
	"strconv"
)

// run is a check run of GitHub.
type run struct {
	ID         int64  `json:"id"`
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`

	annotations []runAnnotation
}

type runAnnotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Message string `json:"message"`
}

type runInput struct {
	Name       string `json:"name"`
	HeadSHA    string `json:"head_sha"`
	ExternalID string `json:"external_id"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Output     *struct {
		Title       string          `json:"title"`
		Summary     string          `json:"summary"`
		Annotations []runAnnotation `json:"annotations"`
	} `json:"output"`
}

var conclusions = []string{"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}

// wrong says what GitHub finds wrong with a request about a check run.
func (in runInput) wrong() string {
	switch {
	case in.Status == "completed" && !slices.Contains(conclusions, in.Conclusion):
		return "conclusion is obligatory with status completed"
	case in.Status != "" && !slices.Contains([]string{"queued", "in_progress", "completed"}, in.Status):
		return "status is not known"
	case in.Output == nil:
		return ""
	case in.Output.Title == "" || in.Output.Summary == "":
		return "output needs title and summary"
	case len(in.Output.Annotations) > 50:
		return "no more than 50 annotations are allowed in one request"
	}
	for _, a := range in.Output.Annotations {
		if a.Path == "" || a.Start < 1 || a.End < a.Start || a.Message == "" || !slices.Contains([]string{"notice", "warning", "failure"}, a.Level) {
			return "an annotation is not complete"
		}
	}
	return ""
}

func (s *Server) githubRun(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[runInput](s, w, r)
	switch {
	case !ok:
	case in.Name == "" || !s.commits[in.HeadSHA]:
		s.refuse(w, 422, "No commit found for SHA: "+in.HeadSHA)
	case in.wrong() != "":
		s.refuse(w, 422, in.wrong())
	default:
		made := &run{ID: s.nextID(), Name: in.Name, HeadSHA: in.HeadSHA, ExternalID: in.ExternalID, Status: in.Status, Conclusion: in.Conclusion}
		if in.Output != nil {
			made.annotations = in.Output.Annotations
		}
		s.runs = append(s.runs, made)
		reply(w, 201, made)
	}
}

// githubExtend adds annotations; what is completed stays so.
func (s *Server) githubExtend(w http.ResponseWriter, r *http.Request) {
	in, ok := decode[runInput](s, w, r)
	if !ok {
		return
	}
	for _, had := range s.runs {
		if strconv.FormatInt(had.ID, 10) != r.PathValue("id") {
			continue
		}
		switch {
		case had.Status == "completed" && in.Status != "" && in.Status != "completed":
			s.refuse(w, 422, "a completed check run cannot go back")
		case in.wrong() != "":
			s.refuse(w, 422, in.wrong())
		default:
			had.annotations = append(had.annotations, in.Output.Annotations...)
			reply(w, 200, had)
		}
		return
	}
	s.refuse(w, 404, "Not Found")
}

func (s *Server) githubRuns(w http.ResponseWriter, r *http.Request) {
	out := []*run{}
	for _, had := range s.runs {
		if had.HeadSHA == r.PathValue("sha") && had.Name == r.URL.Query().Get("check_name") {
			out = []*run{had} // filter=latest
		}
	}
	reply(w, 200, map[string]any{"total_count": len(out), "check_runs": out})
}

// report is one of Code Insights.
type report struct {
	title, result string
	annotations   []Note
}

// Note is an annotation as people see it.
type Note struct {
	Path  string
	Line  int
	Text  string
	Error bool
}

// Runs are the check runs of a commit, oldest first: `status conclusion`.
func (s *Server) Runs(commit string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, had := range s.runs {
		if had.HeadSHA == commit {
			out = append(out, had.Status+" "+had.Conclusion)
		}
	}
	return out
}

// Notes are the annotations that a commit shows: those of the newest check run, or of all reports.
func (s *Server) Notes(commit string) []Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Note
	for i := len(s.runs) - 1; i >= 0; i-- {
		if s.runs[i].HeadSHA != commit {
			continue
		}
		for _, a := range s.runs[i].annotations {
			out = append(out, Note{a.Path, a.Start, a.Message, a.Level == "failure"})
		}
		return out
	}
	for key, rep := range s.reports {
		if key[:len(commit)] == commit {
			out = append(out, rep.annotations...)
		}
	}
	return out
}
