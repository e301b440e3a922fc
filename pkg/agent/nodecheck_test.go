package agent

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const aCheck = `{"node":"n1","uid":"u1","protect":"team=ml","daemonSets":true,"namespace":"fleetwright","label":"nodewright.nvidia.com/name","stay":["s"]}`

// cluster is a NodeReader in memory. Pods with the label team=ml are those that the selector of aCheck selects.
type cluster struct {
	node Node
	pods []Pod
	err  error
}

func (c cluster) Node(context.Context, string) (Node, error) { return c.node, c.err }

func (c cluster) Pods(_ context.Context, _, selector string) ([]Pod, error) {
	var out []Pod
	for _, p := range c.pods {
		if selector == "" || p.Metadata.Labels["team"] == "ml" {
			out = append(out, p)
		}
	}
	return out, nil
}

func parsed[T any](t *testing.T, text string) (out T) {
	require.NoError(t, json.Unmarshal([]byte(text), &out))
	return out
}

func TestNodeCheck(t *testing.T) {
	check, err := ParseNodeCheck(aCheck)
	require.NoError(t, err)
	const cordoned = `{"metadata":{"uid":"u1"},"spec":{"unschedulable":true}}`
	pod := func(meta, phase string) string {
		return `{"metadata":{"namespace":"web","name":"a",` + meta + `},"status":{"phase":"` + phase + `"}}`
	}
	const daemon = `"ownerReferences":[{"kind":"DaemonSet","controller":true}]`
	for name, c := range map[string]struct{ node, pod, want string }{
		"empty":                      {cordoned, "", ""},
		"not cordoned":               {`{"metadata":{"uid":"u1"}}`, "", "node n1 is not cordoned"},
		"another node":               {`{"metadata":{"uid":"u2"},"spec":{"unschedulable":true}}`, "", "node n1 is another one: its UID is u2 and not u1"},
		"a pod that came":            {cordoned, pod(`"uid":"x"`, "Running"), "pod web/a is on node n1"},
		"a pod that has yet to run":  {cordoned, pod(`"uid":"x"`, "Pending"), "pod web/a is on node n1"},
		"a pod that may stay":        {cordoned, pod(`"uid":"s"`, "Running"), ""},
		"a finished pod":             {cordoned, pod(`"uid":"x"`, "Succeeded"), ""},
		"a failed pod":               {cordoned, pod(`"uid":"x"`, "Failed"), ""},
		"a mirror pod":               {cordoned, pod(`"annotations":{"kubernetes.io/config.mirror":"h"}`, "Running"), ""},
		"of a DaemonSet":             {cordoned, pod(daemon, "Running"), ""},
		"of a ReplicaSet":            {cordoned, pod(`"ownerReferences":[{"kind":"ReplicaSet","controller":true}]`, "Running"), "pod web/a is on node n1"},
		"only owned by a DaemonSet":  {cordoned, pod(`"ownerReferences":[{"kind":"DaemonSet"}]`, "Running"), "pod web/a is on node n1"},
		"protected":                  {cordoned, pod(`"labels":{"team":"ml"}`, "Running"), "the protected pod web/a is on node n1"},
		"protected, of a DaemonSet":  {cordoned, pod(daemon+`,"labels":{"team":"ml"}`, "Running"), "the protected pod web/a is on node n1"},
		"protected, though it stays": {cordoned, pod(`"uid":"s","labels":{"team":"ml"}`, "Running"), "the protected pod web/a is on node n1"},
		"protected and finished":     {cordoned, pod(`"uid":"x","labels":{"team":"ml"}`, "Succeeded"), ""},
		"an execution elsewhere":     {cordoned, pod(`"labels":{"nodewright.nvidia.com/name":"tune"}`, "Running"), "pod web/a is on node n1"},
		"an execution": {cordoned,
			`{"metadata":{"namespace":"fleetwright","labels":{"nodewright.nvidia.com/name":"tune"}},"status":{"phase":"Running"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			world := cluster{node: parsed[Node](t, c.node)}
			if c.pod != "" {
				world.pods = []Pod{parsed[Pod](t, c.pod)}
			}
			err := check.Look(t.Context(), world)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
		})
	}
	strict := check
	strict.DaemonSets = false
	world := cluster{node: parsed[Node](t, cordoned), pods: []Pod{parsed[Pod](t, pod(daemon, "Running"))}}
	require.EqualError(t, strict.Look(t.Context(), world), "pod web/a is on node n1")
	require.EqualError(t, check.Look(t.Context(), cluster{err: errors.New("no route")}), "read node n1: no route")
}

func TestParseNodeCheck(t *testing.T) {
	for value, want := range map[string]string{
		"{":            "FLEETWRIGHT_NODE_CHECK is not JSON: unexpected end of JSON input",
		`{"node":"n"}`: "FLEETWRIGHT_NODE_CHECK must name node, uid, namespace and label",
	} {
		_, err := ParseNodeCheck(value)
		require.EqualError(t, err, want)
	}
}

// Nothing is done, and no marker is left, on a node that is not safe; when it is, the interrupt runs.
func TestUnsafeInterruptsDoNothing(t *testing.T) {
	for name, spec := range map[string]string{
		"reboot": `{"type":"node_restart"}`, "service": `{"type":"service_restart","services":["chrony"]}`,
		"all": `{"type":"restart_all_services"}`, "none": `{"type":"no_op"}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, rec := recorded(t, nil)
			m.unsafe = errors.New("node n1 is not cordoned")
			r := m.interrupt(spec)
			requireOutcome(t, Unsafe, r)
			require.Equal(t, "not safe to interrupt: node n1 is not cordoned", r.Message)
			require.Empty(t, rec.Calls())
			require.False(t, m.root.Exists(markers), "no marker")
			m.unsafe = nil
			m.interrupt(spec)
			require.Equal(t, name != "none", len(rec.Calls()) > 0)
		})
	}
}

// A reboot that has happened needs no safe node to be said so.
func TestRebootThatHappenedIsNotAskedForSafety(t *testing.T) {
	m, _ := recorded(t, nil)
	m.interrupt(`{"type":"node_restart"}`)
	m.boot, m.unsafe = "another", errors.New("node n1 is not cordoned")
	requireOutcome(t, Succeeded, m.interrupt(`{"type":"node_restart"}`))
}

func TestAPIServer(t *testing.T) {
	var asked []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		switch {
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/api/v1/nodes/n1":
			_, _ = w.Write([]byte(`{"metadata":{"uid":"u1"},"spec":{"unschedulable":true}}`))
		case r.URL.Path == "/api/v1/pods":
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"a"}}]}`))
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("the token t0ken may not"))
		}
	}))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	env := []string{"KUBERNETES_SERVICE_HOST=" + at.Hostname(), "KUBERNETES_SERVICE_PORT=" + at.Port()}
	dir := t.TempDir()
	write := func(name string, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	write("token", []byte("t0ken\n"))
	_, err = InCluster(env, dir)
	require.ErrorContains(t, err, "read CA of the cluster")
	write("ca.crt", []byte("nothing"))
	_, err = InCluster(env, dir)
	require.ErrorContains(t, err, "holds no certificate")
	write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	_, err = InCluster(nil, dir)
	require.EqualError(t, err, "find the API server: KUBERNETES_SERVICE_HOST is not set")
	s, err := InCluster(env, dir)
	require.NoError(t, err)

	node, err := s.Node(t.Context(), "n1")
	require.NoError(t, err)
	require.True(t, node.Spec.Unschedulable)
	pods, err := s.Pods(t.Context(), "n1", "team in (a,b),!x")
	require.NoError(t, err)
	require.Equal(t, "a", pods[0].Metadata.Name)
	_, err = s.Node(t.Context(), "n2")
	require.EqualError(t, err, "the API server answers 403 Forbidden", "nothing of the body is quoted")
	require.Equal(t, []string{
		"/api/v1/nodes/n1?", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=team+in+%28a%2Cb%29%2C%21x", "/api/v1/nodes/n2?",
	}, asked)
}
