package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fleetwright/fleetwright/test/chart"
	"github.com/fleetwright/fleetwright/test/cluster"
	"github.com/fleetwright/fleetwright/test/forge"
	"github.com/fleetwright/fleetwright/test/lab"
)

// user owns the repository of the guide.
const user = "ada"

var tiers = []lab.Tier{{Name: "canary", Count: 2}, {Name: "serving", Count: 4}, {Name: "training", Count: 6}}

const nodeCount = 12

// ground is everything that runs.
type ground struct {
	lab.Cluster
	options
	forge     *forge.Server
	account   *forge.Account
	kubectl   string // its directory
	webhook   string // address of the receiver
	processes []*lab.Process
}

// play starts everything, writes the environment and waits for Ctrl-C.
func play(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "fleetwright-playground-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	g := &ground{Cluster: lab.Cluster{Dir: dir}, options: o}
	defer g.close()
	for _, step := range []struct {
		say string
		do  func(context.Context) error
	}{
		{"building what is not built yet: Gitea, etcd, kube-apiserver, kubectl", g.build},
		{"starting Gitea", g.startForge},
		{"starting etcd, kube-apiserver, kube-scheduler and the controllers", g.Start},
		{"installing the Helm chart", func(ctx context.Context) error { return g.InstallChart(ctx, nil) }},
		{fmt.Sprintf("adding %d simulated nodes and their workloads", nodeCount), g.addNodes},
		{"starting the reconciler and the reviewer", g.startPrograms},
		{"writing " + o.env, func(context.Context) error { return g.writeEnv() }},
	} {
		fmt.Println(step.say)
		if err := step.do(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("\nready. Forge: %s (user %s, password %s)\nIn another terminal: source %s\nCtrl-C ends everything.\n", g.forge.URL, user, g.account.Password, o.env)
	<-ctx.Done()
	return g.crashed()
}

func (g *ground) build(ctx context.Context) error {
	if _, err := forge.Build(ctx, os.Stderr); err != nil {
		return err
	}
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		if path, err = cluster.BuildKubectl(ctx, os.Stderr); err != nil {
			return err
		}
	}
	g.kubectl = filepath.Dir(path)
	return nil
}

func (g *ground) startForge(ctx context.Context) error {
	var err error
	if g.forge, err = forge.Start(ctx, filepath.Join(g.Dir, "gitea"), os.Stderr); err != nil {
		return err
	}
	g.account, err = g.forge.Account(ctx, user)
	return err
}

func (g *ground) addNodes(ctx context.Context) error {
	if err := g.AddNodes(ctx, tiers); err != nil {
		return err
	}
	return lab.AddWorkloads(ctx, g.Client, lab.NodeName(nodeCount-1))
}

func (g *ground) startPrograms(ctx context.Context) error {
	var err error
	if g.webhook, err = freeAddress(); err != nil {
		return err
	}
	for _, p := range []struct {
		name, account string
		more          []string
	}{
		{"reconciler", chart.ReconcilerAccount, []string{"--webhook-address", g.webhook}},
		{"reviewer", chart.ReviewerAccount, []string{"--review"}},
	} {
		kubeconfig, err := g.Kubeconfig(ctx, p.account)
		if err != nil {
			return err
		}
		process := &lab.Process{
			Name: "the " + p.name, Binary: filepath.Join(g.bin, "fleetwright-reconciler"), Log: filepath.Join(g.Dir, p.name+".log"),
			Args: append(append(lab.ReconcilerArgs(kubeconfig), "--allow-insecure-http"), p.more...), Chaos: g.chaos, Seed: int64(len(g.processes)),
		}
		if err := process.Start(); err != nil {
			return err
		}
		g.processes = append(g.processes, process)
	}
	return nil
}

// writeEnv writes the file that a shell sources. A function spares the reader curl's flags.
func (g *ground) writeEnv() error {
	bin, err := filepath.Abs(g.bin)
	if err != nil {
		return fmt.Errorf("find programs: %w", err)
	}
	var b strings.Builder
	for _, v := range [][2]string{
		{"KUBECONFIG", g.Plane.Kubeconfig()}, {"PATH", bin + ":" + g.kubectl + ":$PATH"}, {"FORGE_URL", g.forge.URL},
		{"FORGE_USER", user}, {"FORGE_TOKEN", g.account.Token}, {"FORGE_GIT", g.account.URL}, {"WEBHOOK_URL", "http://" + g.webhook + "/webhook"},
	} {
		fmt.Fprintf(&b, "export %s=\"%s\"\n", v[0], v[1])
	}
	b.WriteString(`# forge METHOD PATH [JSON] calls Gitea's API as ` + user + `.
forge() {
  curl --silent --fail-with-body --output /dev/null --write-out '%{http_code}\n' --request "$1" \
    --header "Authorization: token $FORGE_TOKEN" --header 'Content-Type: application/json' ${3:+--data "$3"} "$FORGE_URL/api/v1/$2"
}
`)
	return os.WriteFile(g.env, []byte(b.String()), 0o600)
}

func (g *ground) crashed() error {
	var all []error
	for _, p := range g.processes {
		all = append(all, p.Crashed())
	}
	return errors.Join(all...)
}

// close stops everything in the reverse order.
func (g *ground) close() {
	for _, p := range g.processes {
		if p.Crashed() != nil {
			p.Quote(os.Stderr)
		}
		p.Stop()
	}
	g.Close()
	if g.forge != nil {
		g.forge.Stop()
	}
	_ = os.RemoveAll(g.Dir)
	_ = os.Remove(g.env)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("choose port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
