package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestExplainArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no object":      {[]string{"node"}, `fleetwright: "node" names no object (allowed: node/NAME, nodewright/NAME)` + "\n"},
		"an empty name":  {[]string{"node/"}, `fleetwright: "node/" names no object (allowed: node/NAME, nodewright/NAME)` + "\n"},
		"two objects":    {[]string{"node/a", "node/b"}, `fleetwright: "node/a node/b" names no object (allowed: node/NAME, nodewright/NAME)` + "\n"},
		"another kind":   {[]string{"pod/a"}, `fleetwright: "pod" cannot be explained (allowed: node, nodewright)` + "\n"},
		"another format": {[]string{"node/a", "-o", "yaml"}, `fleetwright: unknown output format "yaml" (allowed: text, json)` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := command(t, append([]string{"explain"}, tc.args...)...)
			require.Equal(t, tc.want, errOut)
			require.Empty(t, out)
			require.Equal(t, 1, code)
		})
	}
}

// kubeconfigOf writes a kubeconfig with one context, `here`, for a server.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	k := clientcmdapi.NewConfig()
	k.Clusters["c"] = &clientcmdapi.Cluster{Server: server}
	k.Contexts["here"] = &clientcmdapi.Context{Cluster: "c"}
	k.CurrentContext = "here"
	file := filepath.Join(t.TempDir(), "config")
	require.NoError(t, clientcmd.WriteToFile(*k, file))
	return file
}

func TestExplainFindsNoCluster(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close() // nobody listens there any more

	t.Setenv("KUBECONFIG", "there-is-none")
	_, _, errOut := command(t, "explain", "node/a")
	require.Equal(t, "fleetwright: no cluster is configured: tried KUBECONFIG: there-is-none (does not exist)\n", errOut)

	t.Setenv("KUBECONFIG", "")
	require.Contains(t, newKubeconfig().tried(), clientcmd.RecommendedHomeFile)
	require.Contains(t, newKubeconfig().tried(), ", as KUBECONFIG is not set")

	_, _, errOut = command(t, "explain", "node/a", "--kubeconfig", "there-is-none")
	require.Equal(t, "fleetwright: read kubeconfig (--kubeconfig there-is-none): stat there-is-none: no such file or directory\n", errOut)

	file := kubeconfigOf(t, address)
	_, _, errOut = command(t, "explain", "node/a", "--kubeconfig", file)
	require.Contains(t, errOut, "fleetwright: cannot reach the cluster (--kubeconfig "+file+", context here): ")
	require.Contains(t, errOut, "connection refused")

	t.Setenv("KUBECONFIG", file+string(os.PathListSeparator)+"there-is-none")
	_, _, errOut = command(t, "explain", "nodewright", "a")
	require.Contains(t, errOut, "fleetwright: cannot reach the cluster (KUBECONFIG: "+file+", there-is-none (does not exist), context here): ")
}
