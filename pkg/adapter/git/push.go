package git

import (
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// CheckURL says what is wrong with a source's URL, without asking anybody and without showing more of it than the host. The
// error is an *Error.
func CheckURL(source Source) error {
	_, err := parseURL(source)
	return err
}

// TransportAuth is the source's credential for go-git's own transports, which a push needs. It holds to the same rules as a
// fetch: host keys of the Secret only, nothing of the machine. Nil: anonymous. The error is an *Error.
func TransportAuth(source Source) (transport.AuthMethod, error) {
	e, err := parseURL(source)
	if err != nil {
		return nil, err
	}
	r := newRemote(source, e)
	if e.scheme != "ssh" {
		return r.httpAuth(), nil
	}
	config, err := r.sshConfig()
	if err != nil {
		return nil, err
	}
	ignoreSSHConfig()
	return sshAuthMethod{*config}, nil
}

var noSSHConfig sync.Once

// ignoreSSHConfig changes a setting of go-git that is global to the process: its SSH transport would read ~/.ssh/config, which
// can send a connection to another host.
func ignoreSSHConfig() { noSSHConfig.Do(func() { gitssh.DefaultSSHConfig = nil }) }

// sshAuthMethod hands one configuration to go-git's SSH transport.
type sshAuthMethod struct{ config ssh.ClientConfig }

// ClientConfig is a copy, because the transport fills in what is missing.
func (a sshAuthMethod) ClientConfig() (*ssh.ClientConfig, error) {
	config := a.config
	config.Timeout = DefaultTimeout
	return &config, nil
}

// Name of the method.
func (a sshAuthMethod) Name() string { return gitssh.PublicKeysName }

// String shows no key.
func (a sshAuthMethod) String() string {
	return fmt.Sprintf("user: %s, name: %s", a.config.User, a.Name())
}
