package confined

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
)

// IsChild says whether the program was started as the child.
func IsChild(args []string) bool { return len(args) == 4 && args[1] == Argument }

// Child is the program as the child: it confines itself, builds what its parent orders, and returns the exit code.
func Child(args []string) int {
	if err := child(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func child(args []string) error {
	limits, err := limitsOf(args[2:])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // the reconcilers of this machine have work to do, too
	validator, err := manifest.New()
	if err != nil {
		return fmt.Errorf("read schemas: %w", err)
	}
	err = sandbox.Confine(limits)
	if err != nil && !errors.Is(err, sandbox.ErrNotConfined) {
		return err
	}
	return serve(validator, os.Stdin, os.Stdout, err == nil)
}

func limitsOf(args []string) (sandbox.Limits, error) {
	memory, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return sandbox.Limits{}, fmt.Errorf("read memory limit: %w", err)
	}
	cpu, err := time.ParseDuration(args[1])
	if err != nil {
		return sandbox.Limits{}, fmt.Errorf("read CPU limit: %w", err)
	}
	return sandbox.Limits{Memory: memory, CPU: cpu}, nil
}

func arguments(l sandbox.Limits) []string {
	return []string{Argument, strconv.FormatInt(l.Memory, 10), l.CPU.String()}
}

// serve does one order.
func serve(v *manifest.Validator, in io.Reader, out io.Writer, isConfined bool) error {
	tree := &remoteTree{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out), known: map[string]file{}}
	var o order
	if err := tree.in.Decode(&o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	if o.Strict && !isConfined {
		return tree.out.Encode(wish{Result: &Result{}})
	}
	tree.paths = o.Paths
	built := render.Overlay(v, tree, o.Dir, o.Options)
	if tree.err != nil {
		return tree.err
	}
	return tree.out.Encode(wish{Result: &Result{
		Confined: isConfined, Built: built.Objects != nil, Set: built.Set, Files: built.Files, Findings: built.Findings,
	}})
}

// remoteTree asks the parent for files, for each once.
type remoteTree struct {
	in    *json.Decoder
	out   *json.Encoder
	paths []string
	known map[string]file
	err   error
}

// Paths implements overlay.Files.
func (t *remoteTree) Paths() []string { return t.paths }

// ReadFile implements overlay.Files.
func (t *remoteTree) ReadFile(name string) ([]byte, error) {
	f, asked := t.known[name]
	if !asked {
		f = t.ask(name)
		t.known[name] = f
	}
	switch {
	case f.Missing:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	case f.Error != "":
		return nil, errors.New(f.Error)
	}
	return f.Data, nil
}

func (t *remoteTree) ask(name string) (f file) {
	if t.err == nil {
		t.err = t.out.Encode(wish{Read: name})
	}
	if t.err == nil {
		t.err = t.in.Decode(&f)
	}
	if t.err != nil {
		return file{Error: t.err.Error()}
	}
	return f
}
