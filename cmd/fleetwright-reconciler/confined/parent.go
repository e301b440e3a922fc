package confined

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/adapter/sandbox"
)

const (
	// DefaultMemory of a child, in bytes. An overlay of 500 objects needs about a quarter of it.
	DefaultMemory = 512 << 20
	// DefaultTime of a child. An overlay of 500 objects takes some seconds.
	DefaultTime = time.Minute
	// maxOutput is how much a child may say, in bytes: a little more than all the text that an overlay may reach.
	maxOutput = 32 << 20
	// maxServed is how much of a tree a child may read, in bytes.
	maxServed = 64 << 20
)

// Builder starts children, one at a time, so that their memory is needed once.
type Builder struct {
	program string
	limits  sandbox.Limits
	turn    chan struct{}
}

// NewBuilder prepares children with these limits; zero fields take the defaults. The program is this one.
func NewBuilder(l sandbox.Limits) (*Builder, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	l.Memory, l.CPU = cmp.Or(l.Memory, DefaultMemory), cmp.Or(l.CPU, DefaultTime)
	return &Builder{program: program, limits: l, turn: make(chan struct{}, 1)}, nil
}

// ErrLoose says that nothing was built, as the child could not give up its rights.
var ErrLoose = errors.New("the reviewer's kernel cannot confine the build")

// Build builds and validates a directory of a tree in a child. An error is a *sandbox.Error about the child, ErrLoose, or the end of ctx.
func (b *Builder) Build(ctx context.Context, files overlay.Files, r Request) (Result, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*b.limits.CPU) // of the clock, on a machine that is busy
	defer cancel()
	t := talk{files: files, request: r, left: maxServed}
	err := sandbox.Command{Path: b.program, Args: arguments(b.limits), Limits: b.limits, Output: maxOutput}.Run(ctx, t.run)
	if err == nil && r.Strict && !t.result.Confined {
		err = ErrLoose
	}
	if err != nil {
		return Result{}, err
	}
	return t.result, nil
}

// talk is the parent's side of one build.
type talk struct {
	files   overlay.Files
	request Request
	left    int
	result  Result
}

func (t *talk) run(to io.Writer, from io.Reader) error {
	out, in := json.NewEncoder(to), json.NewDecoder(bufio.NewReader(from))
	if err := out.Encode(order{Dir: t.request.Dir, Paths: t.files.Paths(), Options: t.request.Options, Strict: t.request.Strict}); err != nil {
		return err
	}
	for {
		var w wish
		if err := in.Decode(&w); err != nil {
			return err
		}
		if w.Result != nil {
			t.result = *w.Result
			return t.check()
		}
		if err := out.Encode(t.serve(w.Read)); err != nil {
			return err
		}
	}
}

// check refuses a result that no build has: whoever reads it relies on it.
func (t *talk) check() error {
	s := t.result.Set
	if slices.Contains(s.NodeWrights, nil) || slices.Contains(s.DeploymentPolicies, nil) || slices.Contains(s.Packages, nil) {
		return errors.New("an object is missing")
	}
	return nil
}

func (t *talk) serve(name string) file {
	data, err := t.files.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file{Missing: true}
	case err != nil:
		return file{Error: err.Error()}
	case len(data) > t.left:
		return file{Error: fmt.Sprintf("the build reads more than %d MiB", maxServed>>20)}
	}
	t.left -= len(data)
	return file{Data: data}
}
