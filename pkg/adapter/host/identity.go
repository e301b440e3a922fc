package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// BootIDFile is where the kernel shows the ID of its boot, in every container too.
const BootIDFile = "/proc/sys/kernel/random/boot_id"

// machineIDFiles are read in the kubelet's order (its flag --machine-id-file).
var machineIDFiles = []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}

// MachineID is the ID that the kubelet reports as status.nodeInfo.machineID.
func (r Root) MachineID() (string, error) {
	for _, file := range machineIDFiles {
		data, err := r.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read machine ID: %w", err)
		}
		if id := strings.TrimSpace(string(data)); id != "" {
			return id, nil
		}
	}
	return "", fmt.Errorf("read machine ID: the host has none in %s", strings.Join(machineIDFiles, " or "))
}

// BootID reads the boot ID from a file of this process, usually BootIDFile.
func BootID(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", fmt.Errorf("read boot ID: %s is empty", file)
	}
	return id, nil
}
