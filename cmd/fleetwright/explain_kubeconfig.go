package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig finds a cluster by kubectl's rules.
type kubeconfig struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

func newKubeconfig() *kubeconfig {
	return &kubeconfig{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
}

// quietFlags are flags of kubectl that work here too and that the help text leaves out.
var quietFlags = []string{
	"as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster", "disable-compression",
	"insecure-skip-tls-verify", "password", "proxy-url", "server", "tls-server-name", "token", "user", "username",
}

// bind adds kubectl's flags. Its --namespace is left to the command, which means the reconciler's.
func (k *kubeconfig) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&k.rules.ExplicitPath, "kubeconfig", "", "kubeconfig file (default: those of KUBECONFIG, or ~/.kube/config)")
	flags := clientcmd.RecommendedConfigOverrideFlags("")
	flags.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(&k.overrides, f, flags)
	for _, name := range quietFlags {
		_ = f.MarkHidden(name) // fails only where the library does not have the flag
	}
}

// config is the client configuration of the chosen context.
func (k *kubeconfig) config() (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("no cluster is configured: tried %s", k.tried())
	case err != nil:
		return nil, fmt.Errorf("read kubeconfig (%s): %w", k.tried(), err)
	}
	config.UserAgent = "fleetwright-cli"
	config.QPS = -1 // the API server's priority and fairness paces us
	return config, nil
}

// tried says where a kubeconfig was looked for.
func (k *kubeconfig) tried() string {
	if k.rules.ExplicitPath != "" {
		return "--kubeconfig " + k.rules.ExplicitPath
	}
	var files []string
	for _, file := range k.rules.GetLoadingPrecedence() {
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			file += " (does not exist)"
		}
		files = append(files, file)
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		return strings.Join(files, ", ") + ", as KUBECONFIG is not set"
	}
	return "KUBECONFIG: " + strings.Join(files, ", ")
}

// unreachable adds to a failed connection where its address comes from; other errors are returned as they are.
func (k *kubeconfig) unreachable(err error) error {
	failed := (*url.Error)(nil)
	if !errors.As(err, &failed) {
		return err
	}
	where := k.tried()
	if raw, bad := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(k.rules, &k.overrides).RawConfig(); bad == nil {
		context := raw.CurrentContext
		if k.overrides.CurrentContext != "" {
			context = k.overrides.CurrentContext
		}
		where += ", context " + context
	}
	return fmt.Errorf("cannot reach the cluster (%s): %w", where, failed)
}
