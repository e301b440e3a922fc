package githubapp

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Keys of a Secret, as Flux names them.
const (
	KeyID             = "githubAppID"
	KeyInstallationID = "githubAppInstallationID"
	KeyPrivateKey     = "githubAppPrivateKey"
	KeyBaseURL        = "githubAppBaseURL"
)

// User is the user name that goes with a token over https.
const User = "x-access-token"

// publicAPI is the API of github.com.
const publicAPI = "https://api.github.com"

// App is one installation of a GitHub App, and the key that proves it. It prints without the key.
type App struct {
	id, installation int64
	key              *rsa.PrivateKey
	api              *url.URL
}

// Is says whether a Secret's data is that of a GitHub App.
func Is(data map[string][]byte) bool { return len(data[KeyID]) > 0 || len(data[KeyPrivateKey]) > 0 }

// FromSecret reads githubAppID, githubAppInstallationID, githubAppPrivateKey (PEM), and for GitHub Enterprise Server
// githubAppBaseURL (https://host/api/v3). The error is an *Error with ReasonInvalidSecret, and holds no value.
func FromSecret(data map[string][]byte) (App, error) {
	var app App
	var err error
	if app.id, err = number(data, KeyID); err != nil {
		return App{}, err
	}
	if app.installation, err = number(data, KeyInstallationID); err != nil {
		return App{}, err
	}
	if app.key, err = privateKey(data[KeyPrivateKey]); err != nil {
		return App{}, err
	}
	if app.api, err = baseURL(text(data[KeyBaseURL])); err != nil {
		return App{}, err
	}
	return app, nil
}

// Host is the server whose repositories the token opens: github.com, or that of githubAppBaseURL.
func (a App) Host() string {
	host := a.api.Hostname()
	if host == "api.github.com" {
		return "github.com"
	}
	if strings.HasSuffix(host, ".ghe.com") { // data residency: api.NAME.ghe.com speaks for NAME.ghe.com
		return strings.TrimPrefix(host, "api.")
	}
	return host
}

// API is the base URL of the server's REST API, without a slash at its end.
func (a App) API() string { return a.api.String() }

// String names the installation only.
func (a App) String() string {
	return fmt.Sprintf("installation %d of GitHub App %d at %s", a.installation, a.id, a.Host())
}

// GoString names the installation only.
func (a App) GoString() string { return a.String() }

// cacheKey tells installations apart, and an old private key from a new one.
func (a App) cacheKey() string {
	public := sha256.Sum256(x509.MarshalPKCS1PublicKey(&a.key.PublicKey))
	return fmt.Sprintf("%s %x", a, public)
}

func number(data map[string][]byte, key string) (int64, error) {
	value := text(data[key])
	if value == "" {
		return 0, invalid("has no key %s, which a GitHub App needs", key)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n <= 0 {
		return 0, invalid("has a %s that is not a number", key)
	}
	return n, nil
}

func privateKey(data []byte) (*rsa.PrivateKey, error) {
	if len(data) == 0 {
		return nil, invalid("has no key %s, which a GitHub App needs", KeyPrivateKey)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, invalid("has a %s that is not PEM", KeyPrivateKey)
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*rsa.PrivateKey)
	if err != nil || !ok {
		return nil, invalid("has a %s that is not an RSA private key", KeyPrivateKey)
	}
	return key, nil
}

func baseURL(value string) (*url.URL, error) {
	if value == "" {
		value = publicAPI
	}
	u, err := url.Parse(strings.TrimRight(value, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, invalid("has a %s that is not a URL (allowed: https://host/api/v3)", KeyBaseURL)
	}
	return u, nil
}

func text(value []byte) string { return strings.TrimSpace(string(value)) }
