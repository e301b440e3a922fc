package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPoll is how often a lock that somebody holds is tried again: flock has no wait that ends with a context.
const lockPoll = 100 * time.Millisecond

// Lock takes an advisory lock (flock) on a file of the host, which is made if it is missing. The kernel drops it when the
// process ends, however that happens. It waits until the context ends. Shared locks exclude only exclusive ones.
func (r Root) Lock(ctx context.Context, hostPath string, exclusive bool) (release func() error, err error) {
	p, err := r.Path(hostPath)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return nil, fmt.Errorf("make lock: %w", err)
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make lock: %w", err)
	}
	if err := flock(ctx, f, exclusive); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", hostPath, err), f.Close())
	}
	return f.Close, nil
}

// ErrLocked means that another execution kept the lock until the context ended.
var ErrLocked = errors.New("another execution on this host holds it")

func flock(ctx context.Context, f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ErrLocked
		case <-timer.C:
		}
	}
}
