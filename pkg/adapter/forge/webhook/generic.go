package webhook

import "github.com/fleetwright/fleetwright/pkg/core/wake"

// genericPayload is for senders that are no forge: CI jobs, mirrors, scripts.
type genericPayload struct {
	// Repository is its URL.
	Repository string `json:"repository"`
	// Ref that was pushed, in full, or its short name; with PullRequest the branch that it is for.
	Ref string `json:"ref"`
	// PullRequest is its number.
	PullRequest *int64 `json:"pullRequest"`
}

func readGeneric(_ string, body []byte) (wake.Event, error) {
	var p genericPayload
	if err := decode(body, &p); err != nil {
		return wake.Event{Name: "generic"}, err
	}
	e := wake.Event{Name: "generic push", Kind: wake.Push, Repositories: repositories(p.Repository), Refs: names(p.Ref)}
	if p.PullRequest != nil {
		e = wake.Event{Name: "generic pull request", Kind: wake.PullRequest, Repositories: e.Repositories, Bases: names(branch(p.Ref))}
	}
	return e, nil
}
