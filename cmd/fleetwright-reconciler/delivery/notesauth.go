package delivery

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/pkg/adapter/git"
)

// notesAuth is the credential of a Secret with Flux's key names, as the writer of git notes wants it: the same Secret that
// opens the repository for fetching, checked in the same way. Nil: anonymous.
func notesAuth(url string, data map[string][]byte, insecure bool) (transport.AuthMethod, error) {
	if data == nil {
		return nil, nil
	}
	if _, err := git.AuthFromSecret(data, url); err != nil {
		return nil, err
	}
	endpoint, err := transport.NewEndpoint(url)
	if err != nil {
		return nil, errors.New("spec.source.url is not a URL")
	}
	if endpoint.Protocol == "ssh" {
		return sshAuth(endpoint, data)
	}
	auth := httpAuth(data)
	if auth != nil && endpoint.Protocol == "http" && !insecure {
		return nil, errors.New("credentials are not sent over http without TLS: use https")
	}
	return auth, nil
}

func httpAuth(data map[string][]byte) transport.AuthMethod {
	value := func(key string) string { return strings.TrimRight(string(data[key]), "\r\n") }
	switch {
	case value("bearerToken") != "":
		return &githttp.TokenAuth{Token: value("bearerToken")}
	case value("username") != "":
		return &githttp.BasicAuth{Username: value("username"), Password: value("password")}
	}
	return nil
}

func sshAuth(endpoint *transport.Endpoint, data map[string][]byte) (transport.AuthMethod, error) {
	user := endpoint.User
	if user == "" {
		user = "git"
	}
	keys, err := gitssh.NewPublicKeys(user, data["identity"], string(data["password"]))
	if err != nil {
		return nil, errors.New("the Secret's identity is not a private key, or its password does not open it")
	}
	db, err := knownHosts(data["known_hosts"])
	if err != nil {
		return nil, err
	}
	port := endpoint.Port
	if port == 0 {
		port = 22
	}
	keys.HostKeyCallback = ssh.HostKeyCallback(db.HostKeyCallback())
	keys.HostKeyAlgorithms = db.HostKeyAlgorithms(net.JoinHostPort(endpoint.Host, fmt.Sprint(port)))
	return keys, nil
}

// knownHosts goes through a temporary file, because the library reads files only.
func knownHosts(data []byte) (*knownhosts.HostKeyDB, error) {
	file, err := os.CreateTemp("", "fleetwright-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("make temporary file: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("write temporary file: %w", err), os.Remove(file.Name()))
	}
	db, err := knownhosts.NewDB(file.Name())
	return db, errors.Join(err, os.Remove(file.Name()))
}
