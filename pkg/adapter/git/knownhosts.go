package git

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/skeema/knownhosts"
)

// hostKeys is a known_hosts file that was read. Its algorithm list is per host, unlike the one of fluxcd/pkg/ssh, which mixes
// the hosts of the file and so fails now and then when two hosts have keys of different types.
type hostKeys struct {
	db *knownhosts.HostKeyDB
}

// parseKnownHosts goes through a temporary file, because the library reads files only; the file is gone when it returns.
func parseKnownHosts(data []byte) (*hostKeys, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, invalid("has an empty known_hosts")
	}
	path, err := writeTemporary(data)
	if err != nil {
		return nil, failure(ReasonInvalidSecret, "known_hosts of the Secret cannot be read: no temporary file").because(err)
	}
	db, err := knownhosts.NewDB(path)
	if removed := os.Remove(path); removed != nil {
		return nil, failure(ReasonInvalidSecret, "the temporary copy of known_hosts cannot be removed").because(removed)
	}
	if err != nil {
		return nil, invalid("has a known_hosts with a line that is not `host type key`")
	}
	return &hostKeys{db: db}, nil
}

func writeTemporary(data []byte) (string, error) {
	file, err := os.CreateTemp("", "fleetwright-known-hosts-")
	if err != nil {
		return "", fmt.Errorf("create file: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("write file: %w", err), os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// algorithms that may be negotiated with one host: those of its own lines, SHA-2 before SHA-1.
func (h *hostKeys) algorithms(address string) []string { return h.db.HostKeyAlgorithms(address) }
