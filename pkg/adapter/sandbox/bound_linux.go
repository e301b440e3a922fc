package sandbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// files is how many descriptors a confined process may have: its three, and what the Go runtime needs to wait.
const files = 32

// bound sets the limits of the kernel. Both values of each are set, so that they cannot be raised again.
func bound(l Limits) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // if memory ends elsewhere, this process goes first
	for _, limit := range []struct {
		name  string
		kind  int
		value uint64
	}{
		// Address space is no measure: the Go runtime reserves much more than it uses.
		{"memory", unix.RLIMIT_DATA, uint64(l.Memory)},
		{"CPU time", unix.RLIMIT_CPU, seconds(l.CPU)},
		{"core dumps", unix.RLIMIT_CORE, 0},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"descriptors", unix.RLIMIT_NOFILE, files},
	} {
		if err := unix.Setrlimit(limit.kind, &unix.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limit %s: %w", limit.name, err)
		}
	}
	return nil
}
