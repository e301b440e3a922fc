//go:build !linux

package git

import (
	"errors"
	"fmt"
	"os"
)

// withFile runs use with the path of a temporary file of that content. The reconciler runs on Linux, where the file is in memory.
func withFile(content []byte, use func(path string) error) error {
	file, err := os.CreateTemp("", "fleetwright-known-hosts-")
	if err != nil {
		return fmt.Errorf("create file: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = use(file.Name())
	}
	return errors.Join(err, os.Remove(file.Name()))
}
