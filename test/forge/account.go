package forge

import (
	"context"
	"fmt"
	"strings"

	"code.gitea.io/sdk/gitea"
)

// Account is a user of the server.
type Account struct {
	// Name, Password and Token of the user. The token has the scopes that were asked for.
	Name, Password, Token string
	// API as that user, with the token.
	API *gitea.Client
	// URL of the server with name and token, for git over http: append /owner/repository.git.
	URL string
}

// Root is the administrator's account.
func (s *Server) Root(ctx context.Context) (*Account, error) {
	return s.account(ctx, Account{Name: s.Admin, Password: s.Password, Token: s.Token})
}

// Account creates a user with a token of these scopes; without any, of all.
func (s *Server) Account(ctx context.Context, name string, scopes ...gitea.AccessTokenScope) (*Account, error) {
	root, err := s.Root(ctx)
	if err != nil {
		return nil, err
	}
	free := false
	_, _, err = root.API.AdminCreateUser(gitea.CreateUserOption{
		Username: name, Password: s.Password, Email: name + "@example.com", MustChangePassword: &free,
	})
	if err != nil {
		return nil, fmt.Errorf("create user %s: %w", name, err)
	}
	if len(scopes) == 0 {
		scopes = []gitea.AccessTokenScope{gitea.AccessTokenScopeAll}
	}
	return s.WithToken(ctx, name, scopes...)
}

// WithToken is a user of this server with a further token of these scopes.
func (s *Server) WithToken(ctx context.Context, name string, scopes ...gitea.AccessTokenScope) (*Account, error) {
	login, err := s.client(ctx, gitea.SetBasicAuth(name, s.Password))
	if err != nil {
		return nil, err
	}
	s.tokens++
	token, _, err := login.CreateAccessToken(gitea.CreateAccessTokenOption{Name: fmt.Sprintf("token-%d", s.tokens), Scopes: scopes})
	if err != nil {
		return nil, fmt.Errorf("create token of %s: %w", name, err)
	}
	return s.account(ctx, Account{Name: name, Password: s.Password, Token: token.Token})
}

func (s *Server) account(ctx context.Context, a Account) (*Account, error) {
	var err error
	if a.API, err = s.client(ctx, gitea.SetToken(a.Token)); err != nil {
		return nil, err
	}
	a.URL = strings.Replace(s.URL, "://", "://"+a.Name+":"+a.Token+"@", 1)
	return &a, nil
}

func (s *Server) client(ctx context.Context, as gitea.ClientOption) (*gitea.Client, error) {
	c, err := gitea.NewClient(s.URL, gitea.SetGiteaVersion(strings.TrimPrefix(giteaVersion, "v")), gitea.SetContext(ctx), as)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}
