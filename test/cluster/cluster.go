package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// AssetsEnv names a directory with the programs etcd and kube-apiserver (and, if Options ask for them,
// kube-controller-manager and kube-scheduler); where it is set they are used and nothing is built.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// Options say what runs. The zero value is an API server alone, in a temporary directory.
type Options struct {
	// Dir is the state directory, made if missing. A second start on it finds the data, the identities and the address
	// of the first. Empty: a new temporary directory, removed by Stop.
	Dir string
	// Controllers runs the controllers of Jobs, workloads, budgets, service accounts, namespaces and garbage collection.
	Controllers bool
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// NodeLifecycle adds the controller that marks and taints nodes without heartbeats (after 40 s) and evicts from
	// them. It needs Controllers.
	NodeLifecycle bool
	// JobSyncPeriod is how long the Job controller gathers changes of pods before it looks at their Job, and how long it
	// waits after an error. Default 1s, as Kubernetes has it; suites with thousands of Jobs take less. It needs Controllers,
	// and a control plane that was built here, not one of KUBEBUILDER_ASSETS.
	JobSyncPeriod time.Duration
	// PriorityAndFairness limits request rates as a real cluster does. Default: no limits.
	PriorityAndFairness bool
	// Log receives a word about long work, such as the first build. Default os.Stderr.
	Log io.Writer
}

// Cluster is a running control plane.
type Cluster struct {
	options Options
	binary  string // of our own program; empty with KUBEBUILDER_ASSETS
	assets  string // the directory of KUBEBUILDER_ASSETS
	temp    bool
	config  *rest.Config
	audit   *Audit

	mu        sync.Mutex
	processes []*process // in order of start
	proxies   []*Proxy
}

// Start runs a control plane and returns when it serves: 4 to 6 seconds on a quiet machine, after the first build (see
// Build). The context bounds the start only. The control plane dies with this process at the latest.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.NodeLifecycle && !o.Controllers {
		return nil, fmt.Errorf("start control plane: NodeLifecycle needs Controllers: it is one of them")
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	c := &Cluster{options: o, assets: os.Getenv(AssetsEnv)}
	var err error
	if c.assets != "" {
		err = checkAssets(c.assets, o)
	} else {
		c.binary, err = Build(ctx, o.Log)
	}
	if err != nil {
		return nil, err
	}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	if err := c.launch(ctx); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		c.Stop()
		return nil, fmt.Errorf("read admin kubeconfig: %w", err)
	}
	c.config.QPS = -1 // a test waits for the server, never for its own rate limit
	c.audit = &Audit{path: filepath.Join(c.options.Dir, "audit.jsonl"), config: c.config}
	return c, nil
}

func (c *Cluster) makeDir() (err error) {
	if c.options.Dir == "" {
		c.temp = true
		c.options.Dir, err = os.MkdirTemp("", "fleetwright-cluster-")
	} else if c.options.Dir, err = filepath.Abs(c.options.Dir); err == nil {
		err = os.MkdirAll(c.options.Dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}

// launch starts the processes and waits until they serve; on failure none is left.
func (c *Cluster) launch(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := c.launchProgram
	if c.assets != "" {
		start = c.launchAssets
	}
	if err := start(ctx); err != nil {
		c.stopProcesses()
		return err
	}
	return nil
}

func (c *Cluster) launchProgram(ctx context.Context) error {
	o := c.options
	args := []string{"-dir=" + o.Dir, "-exit-with-stdin", fmt.Sprintf("-controllers=%t", o.Controllers),
		fmt.Sprintf("-scheduler=%t", o.Scheduler), fmt.Sprintf("-node-lifecycle=%t", o.NodeLifecycle),
		fmt.Sprintf("-priority-and-fairness=%t", o.PriorityAndFairness)}
	if o.JobSyncPeriod > 0 {
		args = append(args, "-job-sync-period="+o.JobSyncPeriod.String())
	}
	ready := newLineWatcher("ready ")
	p, err := startProcess(c.binary, args, filepath.Join(o.Dir, "controlplane.log"), ready)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return p.poll(ctx, ready.seen)
}

// Config is an administrator's client configuration, without a client-side rate limit. The caller owns the copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.options.Dir, "admin.kubeconfig") }

// Dir is the state directory; the logs are in it.
func (c *Cluster) Dir() string { return c.options.Dir }

// Stop ends the control plane and its proxies, cleanly if it can, and removes a temporary directory. Stopping twice
// does no harm.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.proxies {
		p.Close()
	}
	c.proxies = nil
	c.stopProcesses()
	if c.temp {
		_ = os.RemoveAll(c.options.Dir)
	}
}

func (c *Cluster) stopProcesses() {
	for len(c.processes) > 0 {
		last := len(c.processes) - 1
		c.processes[last].stop()
		c.processes = c.processes[:last]
	}
}

// Kill ends the control plane with SIGKILL, as a crash would. Restart brings it back.
func (c *Cluster) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		p.kill()
	}
	c.processes = nil
}

// Restart stops what still runs and starts it again with the same data, identities and address: configurations made
// before keep working. After Stop has removed a temporary directory there is nothing to restart, which is an error.
func (c *Cluster) Restart(ctx context.Context) error {
	c.mu.Lock()
	c.stopProcesses()
	c.mu.Unlock()
	if _, err := os.Stat(c.options.Dir); err != nil {
		return fmt.Errorf("restart control plane: its state directory is gone: %w", err)
	}
	if err := c.launch(ctx); err != nil {
		return fmt.Errorf("restart control plane: %w", err)
	}
	return nil
}

// User is a configuration of another user, by impersonation: RBAC decides as if that user had come, and the audit log
// names them. The group system:authenticated is added by the server.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	if name == "" {
		return nil, fmt.Errorf("make user: the name is empty")
	}
	config := c.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return config, nil
}

// ServiceAccount is a configuration of a service account, by impersonation; the account need not exist. A process that
// needs a real token takes ServiceAccountToken.
func (c *Cluster) ServiceAccount(namespace, name string) *rest.Config {
	config := c.Config()
	// Without groups the server adds those of every service account by itself.
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + name}
	return config
}

// ServiceAccountToken is a configuration that carries a real token of an existing service account, valid for 24 hours.
func (c *Cluster) ServiceAccountToken(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	day := int64(24 * 60 * 60)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.Config()
	config.BearerToken = answer.Status.Token
	return config, nil
}

// Audit is the API server's request log.
func (c *Cluster) Audit() *Audit { return c.audit }

// WriteKubeconfig writes a configuration of this package (also a proxy's or an impersonated one) as a kubeconfig, for
// programs that take a file.
func WriteKubeconfig(path string, config *rest.Config) error {
	k := clientcmdapi.NewConfig()
	k.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["user"] = &clientcmdapi.AuthInfo{
		Token:       config.BearerToken,
		Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups,
	}
	k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "user"}
	k.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
