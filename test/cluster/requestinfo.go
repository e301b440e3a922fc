package cluster

import (
	"net/http"
	"slices"
	"strings"
)

// describe reads a request as the API server would: which verb on which object. The rules are those of Kubernetes'
// API concepts page: /api/v1/... and /apis/GROUP/VERSION/..., then namespaces/NS, then resource/name/subresource.
func describe(r *http.Request) AuditEvent {
	e := AuditEvent{URI: r.URL.RequestURI(), UserAgent: r.UserAgent(), User: r.Header.Get("Impersonate-User")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		e.Group, parts = parts[1], parts[3:]
	default:
		e.Verb = strings.ToLower(r.Method)
		return e
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		e.Namespace, parts = parts[1], parts[2:]
	}
	e.Resource = parts[0]
	if len(parts) > 1 {
		e.Name = parts[1]
	}
	if len(parts) > 2 {
		e.Subresource = parts[2]
	}
	e.Verb = verb(r, e.Name)
	return e
}

func verb(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
		return "watch"
	}
	if name == "" {
		return "list"
	}
	return "get"
}

// Describe reads a request as the API server would: verb, resource, namespace and name. For transports that meet chosen
// requests inside of a client.
func Describe(r *http.Request) AuditEvent { return describe(r) }
