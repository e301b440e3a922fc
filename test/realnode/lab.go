//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// Registry is the name by which machines pull images.
const Registry = "registry.example"

// Lab is a control plane, a registry and machines. It exists in the sandbox only: see [Main].
type Lab struct {
	// Cluster is the control plane, with scheduler and controllers.
	Cluster *cluster.Cluster

	dir      string
	kubelet  string // the program
	server   string // where machines reach the API server
	push     string // where this process reaches the registry
	pull     string // where machines reach it
	close    []io.Closer
	machines []*Machine
}

// Open starts a control plane and a registry in which a small base image lies; see [Lab.Base].
func Open(ctx context.Context) (*Lab, error) {
	if os.Getenv(stageEnv) != stageTests {
		return nil, errors.New("open lab of real nodes: this is not the sandbox: call realnode.Main from TestMain")
	}
	dir, err := workDir()
	if err != nil {
		return nil, err
	}
	l := &Lab{dir: dir}
	if l.kubelet, err = cluster.BuildKubelet(ctx, os.Stderr); err != nil {
		return nil, err
	}
	l.Cluster, err = cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), Controllers: true, Scheduler: true, NodeLifecycle: true, JobSyncPeriod: 100 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(l.serveAPI(), l.serveRegistry(), l.pushBase()); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close switches all machines off and stops the rest.
func (l *Lab) Close() {
	for _, m := range l.machines {
		m.Off()
	}
	for _, c := range l.close {
		_ = c.Close()
	}
	l.Cluster.Stop()
}

// Dir is a directory for files that people may want to read after the run, beside the machines' own logs.
func (l *Lab) Dir() string { return l.dir }

// serveAPI leads from the bridge to the API server, which listens on loopback.
func (l *Lab) serveAPI() error {
	address, err := url.Parse(l.Cluster.Config().Host)
	if err != nil {
		return fmt.Errorf("find API server: %w", err)
	}
	listener, err := net.Listen("tcp", gateway+":0")
	if err != nil {
		return fmt.Errorf("serve API: %w", err)
	}
	l.server, l.close = listener.Addr().String(), append(l.close, listener)
	go forward(listener, address.Host)
	return nil
}

func (l *Lab) serveRegistry() error {
	server := &http.Server{
		Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: 10 * time.Second,
	}
	l.close = append(l.close, server)
	for host, address := range map[string]*string{"127.0.0.1": &l.push, gateway: &l.pull} {
		listener, err := net.Listen("tcp", host+":0")
		if err != nil {
			return fmt.Errorf("serve registry: %w", err)
		}
		*address = listener.Addr().String()
		go func() { _ = server.Serve(listener) }() // ends with Close
	}
	return nil
}

// Push puts an image into the registry (example: acme/tuning:1.0.0) and returns the reference by which machines pull it.
func (l *Lab) Push(img v1.Image, image string) (string, error) {
	ref, err := name.ParseReference(l.push + "/" + image)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", image, err)
	}
	if err := remote.Write(ref, img); err != nil {
		return "", fmt.Errorf("push %s: %w", image, err)
	}
	return Registry + "/" + image, nil
}

// PushAddress is where programs on the machine below reach the registry.
func (l *Lab) PushAddress() string { return l.push }

// Add makes a machine with an empty disk, and switches it on.
func (l *Lab) Add(name string) (*Machine, error) {
	m := &Machine{
		Name: name, Address: fmt.Sprintf("10.231.0.%d", 10+len(l.machines)), lab: l, disk: filepath.Join(l.dir, name, "disk"),
	}
	if err := m.format(); err != nil {
		return nil, fmt.Errorf("make disk of %s: %w", name, err)
	}
	l.machines = append(l.machines, m)
	return m, m.On()
}
