package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// checkAssets says at once what the user's directory lacks for these options.
func checkAssets(dir string, o Options) error {
	need := []string{"etcd", "kube-apiserver"}
	if o.Controllers {
		need = append(need, "kube-controller-manager")
	}
	if o.Scheduler {
		need = append(need, "kube-scheduler")
	}
	var missing []string
	for _, name := range need {
		if !isFile(filepath.Join(dir, name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("start control plane: %s=%s has no %s, which this caller needs: add the programs or unset %s, "+
			"then our own control plane is built", AssetsEnv, dir, strings.Join(missing, ", "), AssetsEnv)
	}
	return nil
}

// assetsRun is one start of the user's own programs.
type assetsRun struct {
	cluster    *Cluster
	port, etcd int
	token      string
}

func (a *assetsRun) path(name string) string { return filepath.Join(a.cluster.options.Dir, name) }
func (a *assetsRun) address() string         { return fmt.Sprintf("https://127.0.0.1:%d", a.port) }

// launchAssets runs each program as a process of its own. Unlike our own program these cannot be handed a bound
// socket, so another process might take the port in between; the start then fails and says so.
func (c *Cluster) launchAssets(ctx context.Context) error {
	a := &assetsRun{cluster: c}
	if err := a.prepare(); err != nil {
		return err
	}
	if err := a.startServer(ctx); err != nil {
		return err
	}
	if c.options.Controllers {
		err := a.run("kube-controller-manager", "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--service-account-private-key-file="+a.path("sa.key"), "--root-ca-file="+a.path("apiserver.crt"),
			"--kube-api-qps=1000", "--kube-api-burst=2000", "--controllers="+assetControllers(c.options.NodeLifecycle))
		if err != nil {
			return err
		}
	}
	if c.options.Scheduler {
		return a.run("kube-scheduler", "--kubeconfig="+c.Kubeconfig(), "--authentication-kubeconfig="+c.Kubeconfig(),
			"--authorization-kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=1000", "--kube-api-burst=2000")
	}
	return nil
}

// assetControllers is the default set without what needs a cloud, kubelets or, if not asked for, heartbeats.
func assetControllers(nodeLifecycle bool) string {
	if nodeLifecycle {
		return "*,-node-ipam-controller,-node-route-controller,-service-lb-controller"
	}
	return "*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller,-node-route-controller,-service-lb-controller"
}

// prepare makes or reuses the token, the service account key and the two ports.
func (a *assetsRun) prepare() error {
	var err error
	if a.port, err = a.keptPort("port"); err != nil {
		return err
	}
	if a.etcd, err = a.keptPort("etcd-port"); err != nil {
		return err
	}
	token, err := os.ReadFile(a.path("admin.token"))
	if errors.Is(err, os.ErrNotExist) {
		token = make([]byte, 24)
		_, _ = rand.Read(token) // never fails, see its documentation
		token = []byte(hex.EncodeToString(token))
		err = errors.Join(a.write("admin.token", token), a.writeKey())
	}
	if err != nil {
		return fmt.Errorf("make credentials: %w", err)
	}
	a.token = string(token)
	return errors.Join(
		a.write("tokens.csv", fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token)),
		a.write("audit-policy.yaml", []byte(assetsAuditPolicy)))
}

// assetsAuditPolicy records what controlplane/audit-policy.yaml does; a test compares the two.
const assetsAuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
  - level: Request
    verbs: [patch, update]
    resources:
      - group: ""
        resources: [nodes]
  - level: Request
    verbs: [create, delete, deletecollection]
    resources:
      - group: ""
        resources: [pods, pods/eviction]
      - group: batch
        resources: [jobs]
  - level: Metadata
`

func (a *assetsRun) write(name string, b []byte) error { return os.WriteFile(a.path(name), b, 0o600) }

func (a *assetsRun) writeKey() error {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return err
	}
	return a.write("sa.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// keptPort is the port of an earlier start on this directory, or a free one.
func (a *assetsRun) keptPort(name string) (int, error) {
	var port int
	if b, err := os.ReadFile(a.path(name)); err == nil {
		_, err = fmt.Sscan(string(b), &port)
		return port, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choose a port: %w", err)
	}
	defer l.Close()
	port = l.Addr().(*net.TCPAddr).Port
	return port, a.write(name, fmt.Append(nil, port))
}

func (a *assetsRun) startServer(ctx context.Context) error {
	etcd := fmt.Sprintf("http://127.0.0.1:%d", a.etcd)
	if err := a.run("etcd", "--data-dir="+a.path("etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls=http://127.0.0.1:0"); err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", a.port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--cert-dir=" + a.cluster.options.Dir, // the server makes apiserver.crt and .key here, or reuses them
		"--token-auth-file=" + a.path("tokens.csv"),
		"--service-account-key-file=" + a.path("sa.key"), "--service-account-signing-key-file=" + a.path("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		"--profiling=false", "--event-ttl=24h", "--audit-policy-file=" + a.path("audit-policy.yaml"),
		"--audit-log-path=" + a.path("audit.jsonl"), "--audit-log-mode=blocking", "--audit-log-maxsize=1000000",
	}
	if !a.cluster.options.PriorityAndFairness {
		args = append(args, "--enable-priority-and-fairness=false",
			"--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
	}
	if err := a.run("kube-apiserver", args...); err != nil {
		return err
	}
	server := a.cluster.processes[len(a.cluster.processes)-1]
	if err := server.poll(ctx, a.ready); err != nil {
		return err
	}
	return a.writeKubeconfig()
}

func (a *assetsRun) run(name string, args ...string) error {
	p, err := startProcess(filepath.Join(a.cluster.assets, name), args, a.path(name+".log"), nil)
	if err != nil {
		return err
	}
	a.cluster.processes = append(a.cluster.processes, p)
	return nil
}

// ready asks with the certificate that the server made for itself.
func (a *assetsRun) ready() bool {
	ca, err := os.ReadFile(a.path("apiserver.crt"))
	if err != nil {
		return false
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	r, err := client.Get(a.address() + "/readyz")
	if err != nil {
		return false
	}
	_ = r.Body.Close()
	return r.StatusCode == http.StatusOK
}

func (a *assetsRun) writeKubeconfig() error {
	ca, err := os.ReadFile(a.path("apiserver.crt"))
	if err != nil {
		return fmt.Errorf("read serving certificate: %w", err)
	}
	return WriteKubeconfig(a.cluster.Kubeconfig(), &rest.Config{
		Host: a.address(), BearerToken: a.token, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
}
