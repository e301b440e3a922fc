// The kubelet program is Kubernetes' own kubelet, for suites whose nodes really run containers. It is built from the module of
// the control plane, so that both are of one version; the launcher is the package
// github.com/fleetwright/fleetwright/test/realnode.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := app.NewKubeletCommand(ctx).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}
