package webhook

import (
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

// readBitbucket tells Cloud and Data Center apart by the names of their events.
func readBitbucket(name string, body []byte) (wake.Event, error) {
	switch {
	case name == "diagnostics:ping":
		return wake.Event{Kind: wake.Ping, Name: name}, nil
	case name == "repo:push", slices.Contains(cloudPulls, name):
		return readBitbucketCloud(name, body)
	case name == "repo:refs_changed", slices.Contains(dataCenterPulls, name):
		return readBitbucketDC(name, body)
	}
	return ignored(name), nil
}

// Events of pull requests, without those about comments and approvals.
var (
	cloudPulls      = []string{"pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected"}
	dataCenterPulls = []string{"pr:opened", "pr:from_ref_updated", "pr:modified", "pr:merged", "pr:declined", "pr:deleted"}
)

type cloudPayload struct {
	Repository *struct {
		FullName string `json:"full_name"`
		Links    *struct {
			HTML *struct {
				Href string `json:"href"`
			} `json:"html"`
		} `json:"links"`
		MainBranch *struct {
			Name string `json:"name"`
		} `json:"mainbranch"`
	} `json:"repository"`
	Push *struct {
		Changes []struct {
			New *cloudRef `json:"new"`
			Old *cloudRef `json:"old"`
		} `json:"changes"`
	} `json:"push"`
	PullRequest *struct {
		Destination *struct {
			Branch *struct {
				Name string `json:"name"`
			} `json:"branch"`
		} `json:"destination"`
	} `json:"pullrequest"`
}

// cloudRef is a branch or tag; as the new one it is null where it was deleted, as the old one where it was made.
type cloudRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

func (r *cloudRef) fullName() string {
	if r == nil {
		return ""
	}
	return fullName(r.Type, r.Name)
}

// cloudHost is the one host of Bitbucket Cloud, for payloads without a link.
const cloudHost = "https://bitbucket.org/"

func readBitbucketCloud(name string, body []byte) (wake.Event, error) {
	var p cloudPayload
	if err := decode(body, &p); err != nil {
		return wake.Event{Name: name}, err
	}
	e := wake.Event{Name: name, Kind: wake.PullRequest}
	if r := p.Repository; r != nil {
		urls := []string{cloudHost + r.FullName}
		if r.Links != nil && r.Links.HTML != nil {
			urls = append(urls, r.Links.HTML.Href)
		}
		if r.MainBranch != nil {
			e.DefaultBranch = r.MainBranch.Name
		}
		e.Repositories = repositories(urls...)
	}
	if name != "repo:push" {
		e.Bases = p.bases()
		return e, nil
	}
	e.Kind = wake.Push
	if p.Push != nil {
		for _, c := range p.Push.Changes {
			e.Refs = append(e.Refs, c.New.fullName(), c.Old.fullName())
		}
	}
	e.Refs = names(e.Refs...)
	return e, nil
}

func (p *cloudPayload) bases() []string {
	if p.PullRequest == nil || p.PullRequest.Destination == nil || p.PullRequest.Destination.Branch == nil {
		return nil
	}
	return names(p.PullRequest.Destination.Branch.Name)
}

type dcPayload struct {
	Repository *dcRepository `json:"repository"`
	Changes    []struct {
		RefID string `json:"refId"`
		Ref   *dcRef `json:"ref"`
	} `json:"changes"`
	PullRequest *struct {
		ToRef *struct {
			ID         string        `json:"id"`
			Repository *dcRepository `json:"repository"`
		} `json:"toRef"`
	} `json:"pullRequest"`
	PreviousTarget *dcRef `json:"previousTarget"`
}

type dcRef struct {
	ID string `json:"id"`
}

type dcRepository struct {
	Slug    string `json:"slug"`
	Project *struct {
		Key string `json:"key"`
	} `json:"project"`
	Links *struct {
		Clone []struct {
			Href string `json:"href"`
		} `json:"clone"`
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

// found prefers links. Versions that send none tell project and name, but not the host.
func (r *dcRepository) found() []wake.Repository {
	if r == nil {
		return nil
	}
	var urls []string
	if r.Links != nil {
		for _, link := range append(r.Links.Clone, r.Links.Self...) {
			urls = append(urls, link.Href)
		}
	}
	if found := repositories(urls...); len(found) > 0 {
		return found
	}
	if r.Project == nil || r.Project.Key == "" || r.Slug == "" || strings.Contains(r.Slug, "/") {
		return nil
	}
	if only, ok := wake.PathOnly(r.Project.Key + "/" + r.Slug); ok {
		return []wake.Repository{only}
	}
	return nil
}

func readBitbucketDC(name string, body []byte) (wake.Event, error) {
	var p dcPayload
	if err := decode(body, &p); err != nil {
		return wake.Event{Name: name}, err
	}
	if name == "repo:refs_changed" {
		return wake.Event{Name: name, Kind: wake.Push, Repositories: p.Repository.found(), Refs: p.refs()}, nil
	}
	e := wake.Event{Name: name, Kind: wake.PullRequest}
	if pull := p.PullRequest; pull != nil && pull.ToRef != nil {
		e.Repositories, e.Bases = pull.ToRef.Repository.found(), names(branch(pull.ToRef.ID))
	}
	if p.PreviousTarget != nil {
		e.Bases = names(append(e.Bases, branch(p.PreviousTarget.ID))...)
	}
	return e, nil
}

func (p *dcPayload) refs() []string {
	var refs []string
	for _, c := range p.Changes {
		refs = append(refs, c.RefID)
		if c.Ref != nil {
			refs = append(refs, c.Ref.ID)
		}
	}
	return names(refs...)
}
