package cluster_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// patience bounds waits for real API state; it is never waited out when all is well.
const (
	patience = 60 * time.Second
	interval = 20 * time.Millisecond
)

// childEnv tells a copy of this test binary to be the parent that dies, see TestStart_DiesWithItsParent.
const childEnv = "FLEETWRIGHT_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		bePassingParent(dir)
		return
	}
	cluster.Main(m, cluster.Options{Controllers: true, Scheduler: true})
}

func client(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	k, err := kubernetes.NewForConfig(c)
	require.NoError(t, err)
	return k
}

func whoAmI(t *testing.T, c *rest.Config) string {
	t.Helper()
	r, err := client(t, c).AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return r.Status.UserInfo.Username
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}

func TestStart_ServesOnLoopbackWithAVersionThatClientsCanParse(t *testing.T) {
	c := cluster.Shared(t)
	fromFile, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	require.NoError(t, err)
	v, err := client(t, fromFile).Discovery().ServerVersion()
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, v.GitVersion)
	require.Equal(t, "1", v.Major)
	u, err := url.Parse(c.Config().Host)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", u.Hostname())
}

func TestStart_RefusesLifecycleWithoutControllers(t *testing.T) {
	_, err := cluster.Start(t.Context(), cluster.Options{NodeLifecycle: true})
	require.EqualError(t, err, "start control plane: NodeLifecycle needs Controllers: it is one of them")
}

func TestStart_SaysWhichAssetsAreMissing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o700))
	}
	t.Setenv(cluster.AssetsEnv, dir)
	_, err := cluster.Start(t.Context(), cluster.Options{Controllers: true, Scheduler: true})
	require.EqualError(t, err, "start control plane: KUBEBUILDER_ASSETS="+dir+" has no kube-controller-manager, kube-scheduler, "+
		"which this caller needs: add the programs or unset KUBEBUILDER_ASSETS, then our own control plane is built")
}

func TestIdentities_AreWhatRBACSees(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	alice, err := c.User("alice", "operators")
	require.NoError(t, err)
	require.Equal(t, "alice", whoAmI(t, alice))
	_, err = client(t, alice).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "got %v", err)

	account := "system:serviceaccount:" + ns + ":default"
	require.Equal(t, account, whoAmI(t, c.ServiceAccount(ns, "default")))
	token, err := c.ServiceAccountToken(t.Context(), ns, "default")
	require.NoError(t, err)
	require.Empty(t, token.Impersonate.UserName)
	require.Equal(t, account, whoAmI(t, token))

	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, cluster.WriteKubeconfig(file, alice))
	fromFile, err := clientcmd.BuildConfigFromFlags("", file)
	require.NoError(t, err)
	require.Equal(t, "alice", whoAmI(t, fromFile))
	_, err = c.User("")
	require.EqualError(t, err, "make user: the name is empty")
}

func TestRestart_KeepsDataAddressAndTokens(t *testing.T) {
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	k := client(t, c.Config())
	_, err = k.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("kept"), metav1.CreateOptions{})
	require.NoError(t, err)

	c.Kill()
	_, err = k.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.Error(t, err, "a killed control plane must not answer")
	require.NoError(t, c.Restart(t.Context()))
	_, err = k.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)

	c.Stop()
	c.Stop() // twice does no harm
	again, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(again.Stop)
	require.Equal(t, c.Config().Host, again.Config().Host)
	_, err = k.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
}

// bePassingParent starts a control plane, says where, and waits for SIGKILL.
func bePassingParent(dir string) {
	if _, err := cluster.Start(context.Background(), cluster.Options{Dir: dir}); err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("started\n")
	select {}
}

func TestStart_DiesWithItsParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childEnv+"="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	_, err = out.Read(make([]byte, 1)) // "started", or the end of a parent that failed
	require.NoError(t, err)

	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	require.NoError(t, err)
	u, err := url.Parse(config.Host)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err, "the control plane runs")
	require.NoError(t, conn.Close())

	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait() // "signal: killed"
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", u.Host)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, patience, interval)
}
