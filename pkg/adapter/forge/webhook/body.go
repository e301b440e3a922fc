package webhook

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// payloadOf is the JSON of a body. GitHub, Gitea and Gogs can send it as a field of a form, and GitHub's web page offers that
// first.
func payloadOf(header http.Header, body []byte) ([]byte, error) {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" || strings.HasPrefix(strings.TrimSpace(string(body[:min(len(body), 16)])), "{") {
		return body, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("payload") == "" {
		return nil, refuse(wake.Malformed, "the body is a form without a field payload (allowed: JSON, or a form with the JSON in payload)")
	}
	return []byte(form.Get("payload")), nil
}

// decode reads a body into a struct in which every field is optional.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return refuse(wake.Malformed, "the body's field %s has the type %s (allowed: %s)", short(wrongType.Field), wrongType.Value, kindOf(wrongType))
	case errors.As(err, &wrongType):
		return refuse(wake.Malformed, "the body has the type %s (allowed: a JSON object)", wrongType.Value)
	}
	return refuse(wake.Malformed, "the body is no JSON")
}

// kindOf words the Go type of a field as JSON calls it.
func kindOf(err *json.UnmarshalTypeError) string {
	switch kind := err.Type.Kind().String(); kind {
	case "struct", "ptr", "map":
		return "object"
	case "slice":
		return "array"
	case "bool", "string":
		return kind
	}
	return "number"
}

// repositories keeps the URLs that lead to a repository, each once.
func repositories(urls ...string) []wake.Repository {
	var out []wake.Repository
	for _, u := range urls {
		if r, ok := wake.RepositoryOf(u); ok && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// names leaves out what is empty or there already.
func names(all ...string) []string {
	var out []string
	for _, n := range all {
		if n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

const (
	branchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
)

// fullName of a branch or tag that comes as its short name and its type. Types that are neither have none.
func fullName(kind, name string) string {
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "refs/"):
		return name
	case strings.EqualFold(kind, "branch"), strings.EqualFold(kind, "named_branch"):
		return branchPrefix + name
	case strings.EqualFold(kind, "tag"), strings.EqualFold(kind, "annotated_tag"):
		return tagPrefix + name
	}
	return ""
}

// branch is the short name.
func branch(name string) string { return strings.TrimPrefix(name, branchPrefix) }

func ignored(name string) wake.Event { return wake.Event{Kind: wake.Ignored, Name: name} }
