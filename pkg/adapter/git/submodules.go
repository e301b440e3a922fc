package git

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/config"
)

const (
	maxModulesFile  = 64 << 10 // bytes of a .gitmodules
	maxSubmodules   = 32       // of one fetch, nested ones included
	maxModuleLevels = 4        // of submodules in submodules
)

// grafter puts the trees of submodules into the tree of their repository. All limits are those of the whole.
type grafter struct {
	source Source
	tree   *Tree
	count  int
}

// site is a repository that has its place in the tree.
type site struct {
	dir   string // "." for the outermost
	at    endpoint
	url   string
	level int
}

// graft fetches the submodules of one repository, and theirs. Only the server of the outermost repository is asked, so that no
// credential and no request leaves it.
func (g *grafter) graft(ctx context.Context, s site) error {
	modules := g.modules(s)
	if len(modules) == 0 {
		return nil
	}
	known, err := g.readModules(s)
	if err != nil {
		return err
	}
	for _, at := range modules {
		m, ok := known[at]
		if !ok || m.URL == "" {
			return failure(ReasonSubmoduleInvalid, "%s is a git submodule for which %s names no url", at, path.Join(s.dir, ".gitmodules"))
		}
		if g.count++; g.count > maxSubmodules || s.level >= maxModuleLevels {
			return failure(ReasonTooLarge, "the repository has more than %d submodules, or more than %d in one another; commit the files themselves",
				maxSubmodules, maxModuleLevels)
		}
		if err := g.add(ctx, s, at, m); err != nil {
			return inSubmodule(at, err)
		}
	}
	return nil
}

// modules are the paths of submodules that belong to this repository and not to one within it.
func (g *grafter) modules(s site) []string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(g.tree.entries)) {
		if g.tree.entries[p].kind == submodule && (s.dir == "." || strings.HasPrefix(p, s.dir+"/")) {
			out = append(out, p)
		}
	}
	return out
}

// readModules reads .gitmodules by path in the whole tree. Like git it follows no link to it.
func (g *grafter) readModules(s site) (map[string]*config.Submodule, error) {
	name := path.Join(s.dir, ".gitmodules")
	e, ok := g.tree.entries[name]
	switch {
	case !ok || e.kind != regular:
		return nil, nil
	case e.size > maxModulesFile:
		return nil, failure(ReasonTooLarge, "%s has %d bytes (allowed: %d)", name, e.size, maxModulesFile)
	}
	content, err := g.tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed := config.NewModules()
	if err := parsed.Unmarshal(content); err != nil {
		return nil, failure(ReasonSubmoduleInvalid, "%s cannot be read as git reads it", name).because(err)
	}
	out := map[string]*config.Submodule{}
	for _, m := range parsed.Submodules {
		out[path.Join(s.dir, m.Path)] = m
	}
	return out, nil
}

func (g *grafter) add(ctx context.Context, s site, at string, m *config.Submodule) error {
	address, err := moduleURL(s.url, m.URL)
	if err != nil {
		return err
	}
	commit := g.tree.entries[at].hash.String()
	name := headRef
	if m.Branch != "" && m.Branch != "." {
		name = branchPrefix + m.Branch
	}
	source := g.source
	source.URL, source.Ref, source.Verify, source.AllowLocal = address, Ref{Name: name, Commit: commit}, nil, false
	if source.AnonymousSubmodules {
		source.Auth = Auth{ca: source.Auth.ca}
	}
	e, err := parseURL(source)
	if err != nil {
		return err
	}
	if e.origin() != s.at.origin() {
		return failure(ReasonSubmoduleElsewhere, "it is at %s, not at %s: its server is not asked, and gets no credentials; use a relative url, "+
			"or commit the files themselves", e.origin(), s.at.origin())
	}
	tree, err := fetchRemote(ctx, source, e, Revision{Ref: shortName(name), FullName: name, Commit: commit})
	if err != nil {
		return err
	}
	if err := g.merge(at, tree); err != nil {
		return err
	}
	return g.graft(ctx, site{dir: at, at: e, url: address, level: s.level + 1})
}

// merge puts a tree where the submodule was.
func (g *grafter) merge(at string, sub *Tree) error {
	delete(g.tree.entries, at)
	for name, e := range sub.entries {
		e.from = sub
		if err := g.tree.put(path.Join(at, name), e); err != nil {
			return err
		}
	}
	for dir, hash := range sub.dirs {
		name := path.Join(at, dir)
		if err := g.tree.room(name); err != nil {
			return err
		}
		g.tree.dirs[name] = hash
	}
	return nil
}

// inSubmodule says where it happened, once for each level.
func inSubmodule(at string, err error) error {
	var failed *Error
	if !errors.As(err, &failed) {
		return err
	}
	return failure(failed.Reason, "submodule %s: %s", at, failed.Message).because(err)
}

// moduleURL is the address of a submodule, which may be relative to that of its repository.
func moduleURL(parent, address string) (string, error) {
	if !strings.HasPrefix(address, "./") && !strings.HasPrefix(address, "../") {
		return address, nil
	}
	if m := scpLike.FindStringSubmatch(parent); m != nil {
		joined := path.Join(m[3], address)
		if strings.HasPrefix(joined, "..") {
			return "", failure(ReasonSubmoduleInvalid, "its url %s leads out of the server", quote(address))
		}
		return m[1] + "@" + m[2] + ":" + joined, nil
	}
	u, err := url.Parse(parent)
	if err != nil {
		return "", failure(ReasonSubmoduleInvalid, "its url %s is relative to none", quote(address))
	}
	u.Path, u.RawPath = path.Join("/", u.Path, address), ""
	return u.String(), nil
}
