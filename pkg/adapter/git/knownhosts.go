package git

import (
	"bytes"

	"github.com/skeema/knownhosts"
)

// hostKeys is a known_hosts file that was read. Its algorithm list is per host, unlike the one of fluxcd/pkg/ssh, which mixes
// the hosts of the file and so fails now and then when two hosts have keys of different types.
type hostKeys struct {
	db *knownhosts.HostKeyDB
}

// parseKnownHosts goes through a file, because the library reads files only.
func parseKnownHosts(data []byte) (*hostKeys, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, invalid("has an empty known_hosts")
	}
	var db *knownhosts.HostKeyDB
	var malformed error
	err := withFile(data, func(path string) error {
		db, malformed = knownhosts.NewDB(path)
		return nil
	})
	switch {
	case err != nil:
		return nil, failure(ReasonInvalidSecret, "known_hosts of the Secret cannot be read: no file for it").because(err)
	case malformed != nil:
		return nil, invalid("has a known_hosts with a line that is not `host type key`")
	}
	return &hostKeys{db: db}, nil
}

// algorithms that may be negotiated with one host: those of its own lines, SHA-2 before SHA-1.
func (h *hostKeys) algorithms(address string) []string { return h.db.HostKeyAlgorithms(address) }
