package forges

import (
	"errors"
	"net/url"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
)

// notes writes to the repository itself, with the Secret that opens it for fetching (Flux's key names), checked in the same way.
// Data is nil where there is none.
func (f *Forges) notes(repository string, data map[string][]byte) (forge.Provider, error) {
	source := git.Source{URL: repository, AllowInsecureHTTP: f.opts.AllowInsecureHTTP, AllowLocal: f.opts.AllowLocal}
	if data != nil {
		var err error
		if source.Auth, err = git.AuthFromSecret(data, repository); err != nil {
			return nil, err
		}
	}
	auth, err := git.TransportAuth(source)
	if err != nil {
		return nil, err
	}
	return forge.NewGitNotes(forge.GitNotesConfig{URL: repository, Auth: auth, CABundle: data["ca.crt"]}), nil
}

// checkServerURL refuses an API to which a token must not be sent.
func (f *Forges) checkServerURL(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("spec.checks.url is not a URL (allowed: https://host)")
	case u.User != nil:
		return errors.New("spec.checks.url holds a user or a password; put a token into the Secret of spec.checks.secretRef")
	case strings.EqualFold(u.Scheme, "http") && !f.opts.AllowInsecureHTTP:
		return errors.New("the token would go over http without TLS: use https")
	}
	return nil
}
