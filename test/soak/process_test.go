package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// program is the reconciler, built once, and what it is started with.
type program struct {
	t          *testing.T
	binary     string
	kubeconfig string
	logs       *os.File
}

// process is one run of it.
type process struct {
	cmd     *exec.Cmd
	ended   chan error
	metrics string
}

func buildProgram(t *testing.T, config *rest.Config) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{t: t, binary: filepath.Join(dir, "fleetwright-reconciler"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", p.binary, "../../cmd/fleetwright-reconciler").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, cluster.WriteKubeconfig(p.kubeconfig, config))
	log := os.Getenv(logEnv)
	if log == "" {
		log = filepath.Join(dir, "log")
	}
	p.logs, err = os.Create(log)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.lastWords())
		}
		_ = p.logs.Close()
	})
	return p
}

// start runs the program without a lease: two of them overlap as they do when a lease is lost unnoticed.
func (p *program) start() *process {
	p.t.Helper()
	address := freeAddress(p.t)
	cmd := exec.Command(p.binary, "--kubeconfig="+p.kubeconfig, "--namespace="+namespace, "--agent-image=example.com/agent:1",
		"--leader-election=false", "--metrics-address="+address, "--probe-address=0",
		"--attempts=2", "--retry-backoff=200ms", "--pull-tolerance=1s", "--drain-retry=200ms",
		"--keep-succeeded="+keepJobs.String(), "--keep-failed="+keepJobs.String())
	cmd.Stdout, cmd.Stderr = p.logs, p.logs
	require.NoError(p.t, cmd.Start())
	run := &process{cmd: cmd, ended: make(chan error, 1), metrics: "http://" + address + "/metrics"}
	go func() { run.ended <- cmd.Wait() }()
	return run
}

// kill ends the process without a word.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.ended
}

// yield waits until the process ends by itself because another one leads, or kills it.
func (p *process) yield(patience time.Duration) (bySelf bool) {
	select {
	case <-p.ended:
		return true
	case <-time.After(patience):
		p.kill()
		return false
	}
}

// alive reports whether the process runs.
func (p *process) alive() bool {
	select {
	case err := <-p.ended:
		p.ended <- err
		return false
	default:
		return true
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// lastWords is the end of the log.
func (p *program) lastWords() string {
	const most = 6000
	data, err := os.ReadFile(p.logs.Name())
	if err != nil {
		return err.Error()
	}
	if len(data) > most {
		data = data[len(data)-most:]
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	return "the reconciler's log ends with:\n" + string(data)
}

// figures are the size of a process.
type figures struct {
	goroutines int
	heap, rss  int64 // bytes
}

func (f figures) String() string {
	return fmt.Sprintf("%d goroutines, heap %d MiB, resident %d MiB", f.goroutines, f.heap>>20, f.rss>>20)
}

// measure reads the process's own metrics.
func (p *process) measure(ctx context.Context) (figures, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.metrics, nil)
	if err != nil {
		return figures{}, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return figures{}, fmt.Errorf("read metrics: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return figures{}, fmt.Errorf("read metrics: %w", err)
	}
	value := func(name string) float64 {
		for line := range strings.Lines(string(text)) {
			if rest, found := strings.CutPrefix(line, name+" "); found {
				v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				return v
			}
		}
		return 0
	}
	return figures{
		goroutines: int(value("go_goroutines")), heap: int64(value("go_memstats_heap_inuse_bytes")),
		rss: int64(value("process_resident_memory_bytes")),
	}, nil
}
