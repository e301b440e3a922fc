package cluster

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/fleetwright/fleetwright/test/foreign"
)

// kubernetesVersion is what the program says it is; it must be the version of k8s.io/kubernetes in its go.mod, which a
// test checks. Without it the program would say v0.0.0-master, which clients cannot parse.
const kubernetesVersion = "v1.36.3"

// moduleDir is where the program's sources are, below the root of this repository.
const moduleDir = "test/cluster/controlplane"

var (
	controlPlane = foreign.Program{
		Name: "controlplane", Module: moduleDir, What: "Kubernetes control plane for tests",
		Cost:    "about 20 CPU minutes, 80 MB of downloads, 2-3 GB of Go build cache",
		Version: kubernetesVersion, LDFlags: versionFlags(),
	}
	kubelet = foreign.Program{
		Name: "kubelet", Module: moduleDir, Package: "./kubelet", What: "kubelet for tests",
		Cost:    "about 4 CPU minutes where the control plane is built already, 20 more where it is not",
		Version: kubernetesVersion, LDFlags: versionFlags(),
		Inputs: []string{"go.mod", "go.sum", "kubelet"}, // it shares nothing with the main package above it but the dependencies
	}
)

// kubectl is for machines without one.
var kubectl = foreign.Program{
	Name: "kubectl", Module: moduleDir, Package: "k8s.io/kubernetes/cmd/kubectl", What: "kubectl for the playground",
	Cost:    "about 2 CPU minutes where the control plane is built already",
	Version: kubernetesVersion, LDFlags: versionFlags() + " -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetesVersion,
	Inputs: []string{"go.mod", "go.sum"},
}

// Build makes sure that the control plane's program exists and returns its path. The first call compiles Kubernetes:
// about 20 minutes of CPU time, 80 MB of downloads and 2 to 3 GB in Go's build cache, once; log then says so.
func Build(ctx context.Context, log io.Writer) (string, error) { return controlPlane.Build(ctx, log) }

// BuildKubelet is like Build, for the kubelet of the same version. It shares most of the control plane's compiled packages.
func BuildKubelet(ctx context.Context, log io.Writer) (string, error) { return kubelet.Build(ctx, log) }

// BuildKubectl is like Build, for the kubectl of the same version.
func BuildKubectl(ctx context.Context, log io.Writer) (string, error) { return kubectl.Build(ctx, log) }

func versionFlags() string {
	const pkg = " -X k8s.io/component-base/version."
	major, minor := versionParts()
	return pkg + "gitVersion=" + kubernetesVersion + pkg + "gitMajor=" + major + pkg + "gitMinor=" + minor
}

func versionParts() (major, minor string) {
	parts := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), ".")
	return parts[0], parts[1]
}

func isFile(path string) bool {
	s, err := os.Stat(path)
	return err == nil && s.Mode().IsRegular()
}
