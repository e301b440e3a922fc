package forge

import "fmt"

// New makes the provider of a kind.
func New(kind Kind, cfg Config) (Provider, error) {
	switch kind {
	case KindGitHub:
		g, err := NewGitHub(cfg)
		if err == nil && cfg.Credential.AppID != "" {
			return &GitHubApp{g}, nil
		}
		return g, err
	case KindGitea:
		return NewGitea(cfg)
	case KindGitLab:
		return NewGitLab(cfg)
	case KindBitbucketCloud:
		return NewBitbucketCloud(cfg)
	case KindBitbucketDataCenter:
		return NewBitbucketDataCenter(cfg)
	case KindAzureDevOps:
		return NewAzureDevOps(cfg)
	}
	return nil, permanent("make provider", fmt.Sprintf("unknown kind of forge %q", kind))
}
