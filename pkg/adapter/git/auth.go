package git

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Auth is how to log in at one server. It comes from AuthFromSecret, and prints as what it is, never as its values.
type Auth struct {
	username, password string
	bearer             string
	ca                 []byte
	client             *tls.Certificate
	signer             ssh.Signer
	hosts              *hostKeys
}

// String names the method only.
func (a Auth) String() string { return "Auth(" + a.kind() + ")" }

// GoString names the method only.
func (a Auth) GoString() string { return a.String() }

func (a Auth) empty() bool {
	return a.username == "" && a.password == "" && a.bearer == "" && a.signer == nil && a.client == nil
}

func (a Auth) kind() string {
	switch {
	case a.signer != nil:
		return "identity"
	case a.bearer != "":
		return "bearerToken"
	case a.username != "":
		return "username and password"
	case a.client != nil:
		return "client certificate"
	}
	return "none"
}

// AuthFromSecret reads a Secret's data with Flux's key names: username and password, or bearerToken, with ca.crt (also
// caFile), and tls.crt and tls.key (also certFile and keyFile) for https; identity, optionally identity.pub and password (its passphrase), and known_hosts for ssh. An error is an
// *Error with ReasonInvalidSecret that names keys and never holds a value.
func AuthFromSecret(data map[string][]byte, rawURL string) (Auth, error) {
	if isSSH(rawURL) {
		return sshAuth(data)
	}
	return httpAuth(data)
}

func isSSH(rawURL string) bool {
	if scpLike.MatchString(rawURL) {
		return true
	}
	u, err := url.Parse(rawURL)
	return err == nil && strings.EqualFold(u.Scheme, "ssh")
}

func httpAuth(data map[string][]byte) (Auth, error) {
	auth, err := certificates(data)
	if err != nil {
		return Auth{}, err
	}
	auth.username, auth.password, auth.bearer = text(data["username"]), text(data["password"]), text(data["bearerToken"])
	switch {
	case auth.bearer != "" && auth.username != "":
		return Auth{}, invalid("has both bearerToken and username; keep one")
	case auth.username == "" && auth.password != "":
		return Auth{}, invalid("has password without username")
	case auth.username != "" && auth.password == "":
		return Auth{}, invalid("has username without password")
	case auth.empty() && auth.ca == nil && len(data["identity"]) > 0:
		return Auth{}, invalid("has identity, which is for ssh, but the url is not ssh; add username and password, or bearerToken")
	case auth.empty() && auth.ca == nil:
		return Auth{}, invalid("has none of the keys username and password, bearerToken, tls.crt and tls.key, ca.crt")
	}
	return auth, nil
}

// certificates are the parts of a Secret that TLS needs, whatever the login is.
func certificates(data map[string][]byte) (Auth, error) {
	auth := Auth{ca: firstOf(data, "ca.crt", "caFile")}
	cert, key := firstOf(data, "tls.crt", "certFile"), firstOf(data, "tls.key", "keyFile")
	switch {
	case auth.ca != nil && !x509.NewCertPool().AppendCertsFromPEM(auth.ca):
		return Auth{}, invalid("has a ca.crt that holds no PEM certificate")
	case cert == nil && key == nil:
		return auth, nil
	case key == nil:
		return Auth{}, invalid("has tls.crt without tls.key")
	case cert == nil:
		return Auth{}, invalid("has tls.key without tls.crt")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return Auth{}, invalid("has a tls.crt and a tls.key that are not a certificate in PEM form and its private key")
	}
	auth.client = &pair
	return auth, nil
}

func sshAuth(data map[string][]byte) (Auth, error) {
	if len(data["identity"]) == 0 {
		return Auth{}, invalid("has no key identity, which ssh needs: a private key in PEM or OpenSSH form")
	}
	if len(data["known_hosts"]) == 0 {
		return Auth{}, invalid("has no key known_hosts, which ssh needs to know the server")
	}
	signer, err := parseIdentity(data["identity"], data["password"])
	if err != nil {
		return Auth{}, err
	}
	hosts, err := parseKnownHosts(data["known_hosts"])
	if err != nil {
		return Auth{}, err
	}
	return Auth{signer: signer, hosts: hosts}, nil
}

func parseIdentity(key, passphrase []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(key)
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nil
	case !errors.As(err, &missing):
		return nil, invalid("has an identity that is not a private key in PEM or OpenSSH form")
	case len(passphrase) == 0:
		return nil, invalid("has an encrypted identity and no password to open it")
	}
	if signer, err = ssh.ParsePrivateKeyWithPassphrase(key, passphrase); err != nil {
		return nil, invalid("has a password that does not open its identity")
	}
	return signer, nil
}

// invalid drops the causes on purpose: parsers like to quote what they read.
func invalid(problem string) *Error {
	return failure(ReasonInvalidSecret, "the Secret of secretRef %s", problem)
}

// text drops the line break that `kubectl create secret --from-file` keeps.
func text(value []byte) string { return strings.TrimRight(string(value), "\r\n") }

func firstOf(data map[string][]byte, keys ...string) []byte {
	for _, key := range keys {
		if len(data[key]) > 0 {
			return data[key]
		}
	}
	return nil
}
