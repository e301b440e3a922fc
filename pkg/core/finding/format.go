package finding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Format is a way to print findings.
type Format string

// Formats.
const (
	// Text is one line per finding, for people.
	Text Format = "text"
	// JSON is a list of findings.
	JSON Format = "json"
	// SARIF is version 2.1.0 of the format that code-scanning services read.
	SARIF Format = "sarif"
	// GitHub is one workflow command per finding, which GitHub shows at the line in a pull request.
	GitHub Format = "github"
)

// Formats lists what Render understands.
func Formats() []Format { return []Format{Text, JSON, SARIF, GitHub} }

// Render prints findings in the order given. An unknown format is an error.
func Render(findings []Finding, format Format) ([]byte, error) {
	switch format {
	case Text:
		return renderLines(findings, textLine), nil
	case GitHub:
		return renderLines(findings, gitHubLine), nil
	case JSON:
		if findings == nil {
			findings = []Finding{}
		}
		return renderJSON(findings)
	case SARIF:
		return renderJSON(sarif(findings))
	}
	return nil, fmt.Errorf("unknown format %q (allowed: text, json, sarif, github)", format)
}

func renderLines(findings []Finding, line func(Finding) string) []byte {
	var out bytes.Buffer
	for _, f := range findings {
		out.WriteString(line(f) + "\n")
	}
	return out.Bytes()
}

func renderJSON(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("encode findings: %w", err)
	}
	return out.Bytes(), nil
}

// textLine marks warnings; an error needs no mark.
func textLine(f Finding) string {
	if f.Severity == Warning {
		return "warning: " + f.String()
	}
	return f.String()
}

// gitHubLine escapes as GitHub's workflow commands demand.
func gitHubLine(f Finding) string {
	properties := []string{}
	add := func(key, value string) {
		if value != "" && value != "0" {
			properties = append(properties, key+"="+escapeProperty(value))
		}
	}
	add("file", f.File)
	add("line", fmt.Sprint(f.Line))
	add("col", fmt.Sprint(f.Column))
	add("title", f.Code)
	text := f
	text.File = "" // the place is in the properties
	return "::" + string(f.Severity) + " " + strings.Join(properties, ",") + "::" + escapeData(text.String())
}

func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(s))
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifMessage    `json:"message"`
	Locations []sarifLocation `json:"locations,omitempty"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func sarif(findings []Finding) sarifLog {
	run := sarifRun{
		Tool:    sarifTool{Driver: sarifDriver{Name: "fleetwright", Rules: []sarifRule{}}},
		Results: []sarifResult{},
	}
	var codes []string
	for _, f := range findings {
		codes = append(codes, f.Code)
		run.Results = append(run.Results, sarifOf(f))
	}
	slices.Sort(codes)
	for _, code := range slices.Compact(codes) {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: code})
	}
	return sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

func sarifOf(f Finding) sarifResult {
	text := f
	text.File = ""
	result := sarifResult{RuleID: f.Code, Level: string(f.Severity), Message: sarifMessage{Text: text.String()}}
	if f.File == "" {
		return result
	}
	place := sarifPhysical{Artifact: sarifArtifact{URI: f.File}}
	if f.Line > 0 {
		place.Region = &sarifRegion{StartLine: f.Line, StartColumn: f.Column}
	}
	result.Locations = []sarifLocation{{Physical: place}}
	return result
}
