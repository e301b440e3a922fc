package webhook

import (
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// hubRepository is a repository in payloads of GitHub, Gitea, Forgejo and Gogs.
type hubRepository struct {
	CloneURL      string `json:"clone_url"`
	SSHURL        string `json:"ssh_url"`
	GitURL        string `json:"git_url"`
	HTMLURL       string `json:"html_url"`
	DefaultBranch string `json:"default_branch"`
}

func (r *hubRepository) found() []wake.Repository {
	if r == nil {
		return nil
	}
	return repositories(r.CloneURL, r.SSHURL, r.GitURL, r.HTMLURL)
}

func (r *hubRepository) branch() string {
	if r == nil {
		return ""
	}
	return r.DefaultBranch
}

// hubPayload is every event that we read, in one.
type hubPayload struct {
	Ref         string         `json:"ref"`
	RefType     string         `json:"ref_type"`
	Repository  *hubRepository `json:"repository"`
	PullRequest *struct {
		Base *struct {
			Ref string `json:"ref"`
		} `json:"base"`
	} `json:"pull_request"`
	Changes *struct {
		Base *struct {
			Ref *struct {
				From string `json:"from"`
			} `json:"ref"`
		} `json:"base"`
		Ref *struct{} `json:"ref"` // Gitea's, when the base branch was changed; as the old name it gives the new one
	} `json:"changes"`
}

func readGitHub(name string, body []byte) (wake.Event, error) {
	switch name {
	case "push", "create", "delete", "pull_request", "ping":
		return readHub(name, body)
	}
	return ignored(name), nil
}

// readGitea knows the names of older versions too, which have one for each kind of change of a pull request.
func readGitea(name string, body []byte) (wake.Event, error) {
	switch name {
	case "push", "create", "delete", "pull_request", "pull_request_sync", "pull_request_label":
		return readHub(name, body)
	}
	return ignored(name), nil
}

func readHub(name string, body []byte) (wake.Event, error) {
	var p hubPayload
	if err := decode(body, &p); err != nil {
		return wake.Event{Name: name}, err
	}
	e := wake.Event{Name: name, Kind: wake.Push, Repositories: p.Repository.found(), DefaultBranch: p.Repository.branch()}
	switch {
	case name == "ping":
		e.Kind = wake.Ping
	case strings.HasPrefix(name, "pull_request"):
		e.Kind, e.Bases = wake.PullRequest, p.bases()
		e.Retargeted = p.Changes != nil && p.Changes.Ref != nil
	case name == "push":
		e.Refs = names(fullName("branch", p.Ref)) // always a full name; Gogs is said to have sent short ones
	default:
		e.Refs = names(fullName(p.RefType, p.Ref))
	}
	return e, nil
}

// bases are the branch that a pull request is for, and the one that it was for before this event.
func (p *hubPayload) bases() []string {
	var now, before string
	if p.PullRequest != nil && p.PullRequest.Base != nil {
		now = branch(p.PullRequest.Base.Ref)
	}
	if c := p.Changes; c != nil && c.Base != nil && c.Base.Ref != nil {
		before = branch(c.Base.Ref.From)
	}
	return names(now, before)
}
