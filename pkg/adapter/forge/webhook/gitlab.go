package webhook

import "github.com/fleetwright/fleetwright/pkg/core/wake"

// gitLabProject has the addresses in payloads of project, group and system hooks.
type gitLabProject struct {
	HTTPURL       string `json:"git_http_url"`
	SSHURL        string `json:"git_ssh_url"`
	WebURL        string `json:"web_url"`
	DefaultBranch string `json:"default_branch"`
}

type gitLabPayload struct {
	ObjectKind string         `json:"object_kind"`
	EventName  string         `json:"event_name"`
	Ref        string         `json:"ref"`
	Project    *gitLabProject `json:"project"`
	Repository *gitLabProject `json:"repository"`
	Merge      *struct {
		TargetBranch string         `json:"target_branch"`
		Target       *gitLabProject `json:"target"`
	} `json:"object_attributes"`
	Changes *struct {
		TargetBranch *struct {
			Previous string `json:"previous"`
		} `json:"target_branch"`
	} `json:"changes"`
}

// gitLabKinds are the events that we read, by header. A system hook says in its body which one it is.
var gitLabKinds = map[string]string{
	"Push Hook": "push", "Tag Push Hook": "tag_push", "Merge Request Hook": "merge_request", "System Hook": "",
}

func readGitLab(name string, body []byte) (wake.Event, error) {
	kind, known := gitLabKinds[name]
	if !known {
		return ignored(name), nil
	}
	var p gitLabPayload
	if err := decode(body, &p); err != nil {
		return wake.Event{Name: name}, err
	}
	if kind == "" {
		kind = names(p.ObjectKind, p.EventName, "unknown")[0]
	}
	e := wake.Event{Name: name, Repositories: p.repositories(), DefaultBranch: p.defaultBranch()}
	switch kind {
	case "push", "tag_push":
		e.Kind, e.Refs = wake.Push, names(fullName(kindOfRef[kind], p.Ref))
	case "merge_request":
		e.Kind, e.Bases = wake.PullRequest, p.bases()
	default:
		return ignored(name), nil
	}
	return e, nil
}

var kindOfRef = map[string]string{"push": "branch", "tag_push": "tag"}

// projects are where the repository's addresses may stand. What a merge request is for is `project` and `target`.
func (p *gitLabPayload) projects() []*gitLabProject {
	all := []*gitLabProject{p.Project, p.Repository}
	if p.Merge != nil {
		all = append(all, p.Merge.Target)
	}
	return all
}

func (p *gitLabPayload) repositories() []wake.Repository {
	var urls []string
	for _, project := range p.projects() {
		if project != nil {
			urls = append(urls, project.HTTPURL, project.SSHURL, project.WebURL)
		}
	}
	return repositories(urls...)
}

func (p *gitLabPayload) defaultBranch() string {
	for _, project := range p.projects() {
		if project != nil && project.DefaultBranch != "" {
			return project.DefaultBranch
		}
	}
	return ""
}

func (p *gitLabPayload) bases() []string {
	var now, before string
	if p.Merge != nil {
		now = branch(p.Merge.TargetBranch)
	}
	if p.Changes != nil && p.Changes.TargetBranch != nil {
		before = branch(p.Changes.TargetBranch.Previous)
	}
	return names(now, before)
}
