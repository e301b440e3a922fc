package webhook

import (
	"encoding/json"
	"slices"

	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

type azurePayload struct {
	EventType string `json:"eventType"`
	Resource  *struct {
		RefUpdates []struct {
			Name string `json:"name"`
		} `json:"refUpdates"`
		Repository *struct {
			RemoteURL     string `json:"remoteUrl"`
			SSHURL        string `json:"sshUrl"`
			WebURL        string `json:"webUrl"`
			DefaultBranch string `json:"defaultBranch"`
		} `json:"repository"`
		TargetRefName string `json:"targetRefName"`
	} `json:"resource"`
}

var azurePulls = []string{"git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"}

// looksLikeAzureDevOps is for requests that say nothing in their headers.
func looksLikeAzureDevOps(body []byte) bool {
	var p struct {
		EventType   string `json:"eventType"`
		PublisherID string `json:"publisherId"`
	}
	return json.Unmarshal(body, &p) == nil && p.EventType != "" && p.PublisherID != ""
}

func readAzureDevOps(_ string, body []byte) (wake.Event, error) {
	var p azurePayload
	if err := decode(body, &p); err != nil {
		return wake.Event{}, err
	}
	name := short(p.EventType)
	e := wake.Event{Name: name, Kind: wake.Push}
	switch {
	case name == "":
		return e, refuse(wake.Malformed, "the body names no eventType")
	case slices.Contains(azurePulls, name):
		e.Kind = wake.PullRequest
	case name != "git.push":
		return ignored(name), nil
	}
	if p.Resource == nil {
		return e, nil
	}
	for _, update := range p.Resource.RefUpdates {
		e.Refs = append(e.Refs, update.Name)
	}
	e.Refs, e.Bases = names(e.Refs...), names(branch(p.Resource.TargetRefName))
	if r := p.Resource.Repository; r != nil {
		e.Repositories, e.DefaultBranch = repositories(r.RemoteURL, r.SSHURL, r.WebURL), branch(r.DefaultBranch)
	}
	return e, nil
}
