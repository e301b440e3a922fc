package cluster

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	for uri, want := range map[string]AuditEvent{
		"GET /api/v1/nodes":                    {Verb: "list", Resource: "nodes"},
		"GET /api/v1/nodes?watch=true":         {Verb: "watch", Resource: "nodes"},
		"PATCH /api/v1/nodes/a/status":         {Verb: "patch", Resource: "nodes", Name: "a", Subresource: "status"},
		"GET /api/v1/namespaces":               {Verb: "list", Resource: "namespaces"},
		"GET /api/v1/namespaces/x":             {Verb: "get", Resource: "namespaces", Name: "x"},
		"PUT /api/v1/namespaces/x/finalize":    {Verb: "update", Resource: "namespaces", Name: "x", Subresource: "finalize"},
		"POST /api/v1/namespaces/x/pods":       {Verb: "create", Resource: "pods", Namespace: "x"},
		"DELETE /api/v1/namespaces/x/pods":     {Verb: "deletecollection", Resource: "pods", Namespace: "x"},
		"DELETE /api/v1/namespaces/x/pods/p":   {Verb: "delete", Resource: "pods", Namespace: "x", Name: "p"},
		"GET /apis/batch/v1/namespaces/x/jobs": {Verb: "list", Group: "batch", Resource: "jobs", Namespace: "x"},
		"POST /api/v1/namespaces/x/pods/p/eviction": {Verb: "create", Resource: "pods", Namespace: "x", Name: "p",
			Subresource: "eviction"},
		"GET /apis/fleetwright.dev/v1alpha1/ledgers/cluster": {Verb: "get", Group: "fleetwright.dev", Resource: "ledgers",
			Name: "cluster"},
		"GET /readyz":  {Verb: "get"},
		"GET /api/v1":  {Verb: "get"},
		"GET /version": {Verb: "get"},
	} {
		method, path, _ := strings.Cut(uri, " ")
		want.URI = path
		require.Equal(t, want, describe(httptest.NewRequest(method, path, nil)), uri)
	}
}

func TestMatch(t *testing.T) {
	e := AuditEvent{Verb: "create", Resource: "pods", Subresource: "eviction", Namespace: "x", Name: "p", User: "u", UserAgent: "a/1"}
	for _, m := range []Match{{}, {Verb: "create"}, {Resource: "pods/eviction"}, {Resource: "pods/*"}, {Namespace: "x", Name: "p"},
		{User: "u"}, {UserAgent: "a/"}} {
		require.True(t, m.matches(e), "%+v", m)
	}
	for _, m := range []Match{{Verb: "patch"}, {Resource: "pods"}, {Resource: "pods/status"}, {Resource: "nodes/*"}, {Namespace: "y"},
		{Name: "q"}, {User: "v"}, {UserAgent: "b"}} {
		require.False(t, m.matches(e), "%+v", m)
	}
}

func TestAudit_LeavesAHalfLineForLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a := &Audit{path: path}
	line := `{"verb":"get","objectRef":{"resource":"pods"},"user":{"username":"a"},"impersonatedUser":{"username":"b"}}` + "\n"
	require.NoError(t, os.WriteFile(path, []byte(line+line[:20]), 0o600))
	events, err := a.Events(Match{})
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, "b", events[0].User)
	require.NoError(t, os.WriteFile(path, []byte(line+line), 0o600))
	events, err = a.Events(Match{})
	require.NoError(t, err)
	require.Len(t, events, 2)
}

func TestBuild_VersionIsThatOfTheModule(t *testing.T) {
	b, err := os.ReadFile("controlplane/go.mod")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^require k8s\.io/kubernetes (\S+)$|^\tk8s\.io/kubernetes (\S+)$`).FindSubmatch(b)
	require.NotNil(t, found)
	require.Equal(t, kubernetesVersion, string(found[1])+string(found[2]))
}

func TestAuditPolicy_IsTheSameForBothKindsOfStart(t *testing.T) {
	b, err := os.ReadFile("controlplane/audit-policy.yaml")
	require.NoError(t, err)
	_, policy, found := bytes.Cut(b, []byte("apiVersion:"))
	require.True(t, found)
	require.Equal(t, "apiVersion:"+string(policy), assetsAuditPolicy)
}

func TestNamespacePrefix(t *testing.T) {
	require.Equal(t, "testx-a-b-", namespacePrefix("TestX/a_b"))
	require.LessOrEqual(t, len(namespacePrefix(strings.Repeat("TestFieldReport_DR_01/", 9))), 41)
}
