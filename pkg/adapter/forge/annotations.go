package forge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// GitHubApp is GitHub spoken to by a GitHub App, which alone may write check runs.
type GitHubApp struct{ *GitHub }

const (
	// checkAnnotations is how many GitHub takes in one request; cloudAnnotations is Bitbucket Cloud's number. maxAnnotations
	// bounds all of one report: more are not read by people.
	checkAnnotations = 50
	cloudAnnotations = 100
	maxAnnotations   = 200
	// annotationText is the longest text of one, in characters.
	annotationText = 400
)

// findings is the title of reports.
func findings(all []Annotation) string {
	errors := 0
	for _, a := range all {
		if a.Error {
			errors++
		}
	}
	return fmt.Sprintf("%d errors, %d warnings", errors, len(all)-errors)
}

func anyError(all []Annotation) bool {
	return slices.ContainsFunc(all, func(a Annotation) bool { return a.Error })
}

// digest names the content of a report.
func digest(all []Annotation) string {
	data, _ := json.Marshal(all) //nolint:errchkjson // strings and numbers
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// located leaves out what has no place: GitHub and Bitbucket show annotations at lines of files only.
func located(all []Annotation) []Annotation {
	var out []Annotation
	for _, a := range all {
		if a.File != "" && len(out) < maxAnnotations {
			a.Text = Truncate(a.Text, annotationText)
			out = append(out, a)
		}
	}
	return out
}

type checkRun struct {
	ID         int64       `json:"id,omitempty"`
	Name       string      `json:"name,omitempty"`
	HeadSHA    string      `json:"head_sha,omitempty"`
	ExternalID string      `json:"external_id,omitempty"`
	Status     string      `json:"status,omitempty"`
	Conclusion string      `json:"conclusion,omitempty"` // obligatory with status completed
	Output     checkOutput `json:"output"`
}

type checkOutput struct {
	Title       string            `json:"title"`
	Summary     string            `json:"summary"`
	Annotations []checkAnnotation `json:"annotations,omitempty"`
}

type checkAnnotation struct {
	Path    string `json:"path"`
	Start   int    `json:"start_line"`
	End     int    `json:"end_line"`
	Level   string `json:"annotation_level"`
	Message string `json:"message"`
}

// Annotate shows the findings in a check run that is completed from the start. A completed run cannot go back, so other findings
// are another run of the same name, which GitHub shows instead. Its name differs from the status's: people may require either.
func (g *GitHubApp) Annotate(ctx context.Context, pull PullRequest, context string, all []Annotation) error {
	name := context + "/findings"
	had, err := g.newestRun(ctx, pull.Head, name)
	if err != nil {
		return err
	}
	if had == nil && len(all) == 0 || had != nil && had.ExternalID == digest(all) {
		return nil
	}
	run := checkRun{Name: name, HeadSHA: pull.Head, ExternalID: digest(all), Status: "completed", Conclusion: "success"}
	switch {
	case anyError(all):
		run.Conclusion = "failure"
	case len(all) > 0:
		run.Conclusion = "neutral"
	}
	run.Output = checkOutput{Title: findings(all), Summary: findings(all)}
	return g.writeRun(ctx, run, githubAnnotations(all))
}

// writeRun sends the annotations in portions: each request adds to those before.
func (g *GitHubApp) writeRun(ctx context.Context, run checkRun, rows []checkAnnotation) error {
	q := request{op: "add check run", name: "check_add", method: http.MethodPost, path: g.repo("/check-runs"), in: &run, out: &struct {
		ID *int64 `json:"id"`
	}{&run.ID}}
	first := min(len(rows), checkAnnotations)
	run.Output.Annotations, rows = rows[:first], rows[first:]
	if _, err := g.api.do(ctx, q); err != nil {
		return err
	}
	for len(rows) > 0 {
		first = min(len(rows), checkAnnotations)
		more := checkRun{Output: checkOutput{Title: run.Output.Title, Summary: run.Output.Summary, Annotations: rows[:first]}}
		rows = rows[first:]
		_, err := g.api.do(ctx, request{
			op: "extend check run", name: "check_edit", method: http.MethodPatch, path: g.repo("/check-runs/", strconv.FormatInt(run.ID, 10)), in: more,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func githubAnnotations(all []Annotation) []checkAnnotation {
	var out []checkAnnotation
	for _, a := range located(all) {
		row := checkAnnotation{Path: a.File, Start: max(1, a.Line), End: max(1, a.Line), Level: "warning", Message: a.Text}
		if a.Error {
			row.Level = "failure"
		}
		out = append(out, row)
	}
	return out
}

func (g *GitHubApp) newestRun(ctx context.Context, commit, name string) (*checkRun, error) {
	var found struct {
		Runs []checkRun `json:"check_runs"`
	}
	_, err := g.api.do(ctx, request{
		op: "read check runs", name: "check_list", method: http.MethodGet, path: g.repo("/commits/", commit, "/check-runs"),
		query: url.Values{"check_name": {name}, "filter": {"latest"}, "app_id": {g.api.cfg.Credential.AppID}}, out: &found,
	})
	if err != nil {
		return nil, err
	}
	var newest *checkRun
	for i := range found.Runs {
		if run := &found.Runs[i]; run.Name == name && (newest == nil || run.ID > newest.ID) {
			newest = run
		}
	}
	return newest, nil
}

// insightsReport is a report of Code Insights; Cloud and Data Center share most of it.
type insightsReport struct {
	Title      string `json:"title"`
	Details    string `json:"details"`
	Reporter   string `json:"reporter"`
	ReportType string `json:"report_type,omitempty"` // Cloud only
	Result     string `json:"result"`
}

type cloudAnnotation struct {
	ExternalID string `json:"external_id"`
	Type       string `json:"annotation_type"`
	Path       string `json:"path"`
	Line       int    `json:"line,omitempty"`
	Summary    string `json:"summary"`
	Severity   string `json:"severity"`
}

// reportKey is the report's name in addresses.
func reportKey(context string) string {
	sum := sha256.Sum256([]byte(context))
	return "fleetwright-" + hex.EncodeToString(sum[:8])
}

func severity(a Annotation) string {
	if a.Error {
		return "HIGH"
	}
	return "LOW"
}

// Annotate replaces the report of the context on the head.
func (b *BitbucketCloud) Annotate(ctx context.Context, pull PullRequest, context string, all []Annotation) error {
	path := b.repo("/commit/", pull.Head, "/reports/", reportKey(context))
	_, err := b.api.do(ctx, request{op: "delete report", name: "report_delete", method: http.MethodDelete, path: path})
	if err = unlessGone(err); err != nil || len(all) == 0 {
		return err
	}
	report := insightsReport{Title: Truncate(context, 450), Details: findings(all), Reporter: "Fleetwright", ReportType: "TEST", Result: "PASSED"}
	if anyError(all) {
		report.Result = "FAILED"
	}
	if _, err := b.api.do(ctx, request{op: "write report", name: "report_set", method: http.MethodPut, path: path, in: report}); err != nil {
		return err
	}
	var rows []cloudAnnotation
	for i, a := range located(all) {
		rows = append(rows, cloudAnnotation{
			ExternalID: reportKey(context) + "-" + strconv.Itoa(i), Type: "CODE_SMELL", Path: a.File, Line: a.Line, Summary: a.Text, Severity: severity(a),
		})
	}
	for part := range slices.Chunk(rows, cloudAnnotations) {
		_, err := b.api.do(ctx, request{op: "annotate", name: "annotation_add", method: http.MethodPost, path: path + "/annotations", in: part})
		if err != nil {
			return err
		}
	}
	return nil
}

type dcAnnotation struct {
	Path     string `json:"path"`
	Line     int    `json:"line"`
	Message  string `json:"message"`
	Severity string `json:"severity"`
	Type     string `json:"type"`
}

// Annotate replaces the report of the context on the head.
func (b *BitbucketDataCenter) Annotate(ctx context.Context, pull PullRequest, context string, all []Annotation) error {
	path := b.repo("insights", "/commits/", pull.Head, "/reports/", reportKey(context))
	_, err := b.api.do(ctx, request{op: "delete report", name: "report_delete", method: http.MethodDelete, header: noCheck, path: path})
	if err = unlessGone(err); err != nil || len(all) == 0 {
		return err
	}
	report := insightsReport{Title: Truncate(context, 450), Details: findings(all), Reporter: "Fleetwright", Result: "PASS"}
	if anyError(all) {
		report.Result = "FAIL"
	}
	_, err = b.api.do(ctx, request{op: "write report", name: "report_set", method: http.MethodPut, header: noCheck, path: path, in: report})
	if err != nil {
		return err
	}
	rows := []dcAnnotation{}
	for _, a := range located(all) {
		rows = append(rows, dcAnnotation{Path: a.File, Line: a.Line, Message: a.Text, Severity: severity(a), Type: "CODE_SMELL"})
	}
	if len(rows) == 0 {
		return nil
	}
	_, err = b.api.do(ctx, request{
		op: "annotate", name: "annotation_add", method: http.MethodPost, header: noCheck, path: path + "/annotations",
		in: map[string]any{"annotations": rows},
	})
	return err
}
