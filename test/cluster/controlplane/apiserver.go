package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// auditPolicy says what the audit log records; the tests of the project assert on that log.
//
//go:embed audit-policy.yaml
var auditPolicy []byte

type apiServerConfig struct {
	dir         string
	credentials *credentials
	listener    net.Listener
	etcd        string
	fairness    bool
}

// runAPIServer serves until ctx ends. Options and Run are used instead of the cobra command because that one installs
// a signal handler, which may exist only once in a process.
func runAPIServer(ctx context.Context, c apiServerConfig) error {
	policy := filepath.Join(c.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, auditPolicy, 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	o := apioptions.NewServerRunOptions()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, s := range o.Flags().FlagSets {
		fs.AddFlagSet(s)
	}
	if err := fs.Parse(apiServerArgs(c, policy)); err != nil {
		return fmt.Errorf("parse kube-apiserver flags: %w", err)
	}
	o.SecureServing.Listener = c.listener // else the port could be taken between choosing and binding
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("set feature gates: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return fmt.Errorf("complete kube-apiserver options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("validate kube-apiserver options: %w", errors.Join(errs...))
	}
	return app.Run(ctx, completed)
}

func apiServerArgs(c apiServerConfig, policy string) []string {
	f := c.credentials.file
	port := c.listener.Addr().(*net.TCPAddr).Port
	args := []string{
		"--etcd-servers=" + c.etcd,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + f("server.crt"), "--tls-private-key-file=" + f("server.key"),
		"--client-ca-file=" + f("ca.crt"), "--token-auth-file=" + f("tokens.csv"),
		"--kubelet-client-certificate=" + f("kubelet-client.crt"), "--kubelet-client-key=" + f("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-key-file=" + f("sa.key"), "--service-account-signing-key-file=" + f("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true", "--profiling=false", "--event-ttl=24h",
		// One file without rotation: a reader follows it by offset. Blocking: what is in the file has happened.
		"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(c.dir, "audit.jsonl"),
		"--audit-log-mode=blocking", "--audit-log-maxsize=1000000",
	}
	if !c.fairness {
		args = append(args, "--enable-priority-and-fairness=false",
			"--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
	}
	return args
}
