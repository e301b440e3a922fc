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

func TestBuild_KeyFollowsTheSources(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		key, err := controlPlane.sourceKey(t.Context(), dir)
		require.NoError(t, err)
		return key
	}
	first := write("go.mod", "module m\n\ngo 1.26.0\n")
	second := write("main.go", "package main")
	require.NotEqual(t, first, second)
	require.Equal(t, second, write("main_test.go", "package main"), "tests are no part of the program")
	require.NotEqual(t, second, write("audit-policy.yaml", "x"), "what is embedded is")
}

func TestBuildKubelet_KeyFollowsItsOwnSources(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "kubelet"), 0o700))
	write := func(name, content string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		key, err := kubelet.sourceKey(t.Context(), dir)
		require.NoError(t, err)
		return key
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), nil, 0o600))
	first := write("go.mod", "module m\n\ngo 1.26.0\n")
	require.Equal(t, first, write("main.go", "package main"), "the control plane's sources are no part of it")
	second := write("kubelet/main.go", "package main")
	require.NotEqual(t, first, second)
	require.NotEqual(t, second, write("go.mod", "module m\n\ngo 1.26.1\n"), "its dependencies are")
}

func TestBuild_ReturnsAtOnceWhatIsInTheCache(t *testing.T) {
	source, err := findSource()
	require.NoError(t, err)
	key, err := controlPlane.sourceKey(t.Context(), source)
	require.NoError(t, err)
	cache := t.TempDir()
	t.Setenv(CacheEnv, cache)
	want := filepath.Join(cache, "controlplane-"+key, "controlplane")
	require.NoError(t, os.MkdirAll(filepath.Dir(want), 0o700))
	require.NoError(t, os.WriteFile(want, nil, 0o700))
	var log bytes.Buffer
	got, err := Build(t.Context(), &log)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, log.String())
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
