package git

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// withFile runs use with the path of a file of that content. The file is in memory alone, so that a process that dies in between
// leaves nothing behind.
func withFile(content []byte, use func(path string) error) error {
	fd, err := unix.MemfdCreate("fleetwright-known-hosts", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "fleetwright-known-hosts")
	_, err = file.Write(content)
	if err == nil {
		err = use(fmt.Sprintf("/proc/self/fd/%d", fd))
	}
	return errors.Join(err, file.Close())
}
