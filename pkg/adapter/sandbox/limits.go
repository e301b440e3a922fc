package sandbox

import (
	"errors"
	"runtime/debug"
	"time"
)

// Limits of a confined process.
type Limits struct {
	// Memory that it may have for data, in bytes. The Go runtime asks for 64 MiB at a time, so less than 128 MiB is not useful.
	Memory int64
	// CPU time that it may use, rounded up to a second.
	CPU time.Duration
}

// ErrNotConfined says that memory and time are bounded, but that the kernel does not let the process give up its other rights.
var ErrNotConfined = errors.New("this kernel takes no filter of system calls")

// Confine bounds the process that calls it, for good: first memory and time, then everything else. It comes before the first
// byte from outside is read. With ErrNotConfined the bounds hold, and files and connections can still be opened; after any other
// error nothing must be read.
func Confine(l Limits) error {
	debug.SetMemoryLimit(l.Memory / 4 * 3) // collect well before the end
	if err := bound(l); err != nil {
		return err
	}
	return filter()
}

// seconds rounds up.
func seconds(d time.Duration) uint64 { return uint64((d + time.Second - 1) / time.Second) }
