package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"runtime/debug"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/cmd/fleetwright/explain"
	"github.com/fleetwright/fleetwright/cmd/internal/render"
	"github.com/fleetwright/fleetwright/pkg/adapter/git"
	"github.com/fleetwright/fleetwright/pkg/adapter/manifest"
	"github.com/fleetwright/fleetwright/pkg/adapter/overlay"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// toolVersion is the released version of the program; empty for one that somebody built.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return ""
	}
	return info.Main.Version
}

// gather reads the nodes. The cluster is returned for the pods, which are read once it is known which matter.
func (o *planOptions) gather(ctx context.Context, in *preview.Input) (*explain.Source, error) {
	in.Source, in.Settings = preview.NoNodes, plan.Settings{Attempts: 3, StageTimeout: time.Hour, Namespace: o.Namespace}
	switch {
	case o.NodesFrom != "":
		state, err := readClusterState(o.In, o.NodesFrom, clusterState{takesPods: true})
		if err != nil {
			return nil, err
		}
		in.Source, in.Nodes, in.Ledger, in.PodsKnown = preview.Saved, state.nodes, state.ledger, state.podsKnown()
		return nil, nil
	case !o.FromLive:
		return nil, nil
	}
	config, err := o.Kubeconfig.config()
	if err != nil {
		return nil, err
	}
	source, err := explain.NewSource(config, o.Namespace, time.Now)
	if err != nil {
		return nil, o.Kubeconfig.unreachable(err)
	}
	if err := source.FillPreview(ctx, in); err != nil {
		return nil, o.Kubeconfig.unreachable(explain.Word(err))
	}
	return source, nil
}

// addPods reads the pods of the nodes that would be interrupted. Where that is not allowed, a note says so.
func (o *planOptions) addPods(ctx context.Context, source *explain.Source, in *preview.Input) {
	nodes := preview.Disturbed(*in)
	if len(nodes) == 0 {
		in.PodsKnown = true // none matters
		return
	}
	if err := source.AddPods(ctx, in.Nodes, nodes); err != nil {
		in.Notes = append(in.Notes, "pods are not considered: "+explain.Word(err).Error())
		return
	}
	in.PodsKnown = true
}

// load builds and validates both states.
func (o *planOptions) load(ctx context.Context, in *preview.Input) error {
	at, err := findPath(o.Path)
	if err != nil {
		return err
	}
	tree, err := git.Worktree(at.root)
	if err != nil {
		return err
	}
	files, ok := at.in(tree)
	if !ok {
		return nothingHere(o.Path)
	}
	validator, err := manifest.New()
	if err != nil {
		return err
	}
	var options manifest.Options
	if in.Source != preview.NoNodes {
		options.Nodes = (clusterState{nodes: in.Nodes}).labels()
	}
	head := render.Overlay(validator, files, at.dir, options)
	in.Path, in.Head, in.Findings = at.shown(), objectsOf(head.Set), head.Findings
	if err := ctx.Err(); err != nil {
		return err
	}
	l := loader{validator: validator, at: at, head: head, tree: tree}
	return l.base(o.Against, in)
}

// shown is the path in its repository.
func (p place) shown() string {
	if p.file == "" {
		return p.dir
	}
	return p.dir + "/" + p.file
}

func objectsOf(s manifest.Set) simulate.Objects {
	return simulate.Objects{NodeWrights: s.NodeWrights, Policies: s.DeploymentPolicies, Packages: s.Packages}
}

// loader builds the old state.
type loader struct {
	validator *manifest.Validator
	at        place
	head      render.Result
	tree      *git.Tree
}

// base finds and builds what the new state is compared with. A directory that is no repository is compared with nothing.
func (l loader) base(against string, in *preview.Input) error {
	in.Compared = preview.Comparison{Head: "the files on disk"}
	base, err := git.FindBase(l.at.root, against)
	var problem *git.Error
	if against == "" && errors.As(err, &problem) && problem.Reason == git.ReasonRepositoryNotFound {
		in.Files = l.head.Files
		return nil
	}
	if err != nil {
		return err
	}
	in.Compared.HeadCommit, in.Compared.Behind = base.Head, base.Tip
	if err := l.compare(base.Name, base.Commit, in); err != nil {
		return err
	}
	if against != "" || len(in.Files) > 0 || base.Commit == "" || base.Commit != base.Head {
		return nil
	}
	return l.compare("the commit before HEAD", base.Parent, in) // nothing is edited
}

// compare builds a commit. Without one, or if it has not the path, everything is new.
func (l loader) compare(name, commit string, in *preview.Input) error {
	if commit == "" {
		in.Base, in.Compared.Base, in.Compared.BaseCommit, in.Files = simulate.Objects{}, "", "", l.head.Files
		return nil
	}
	old, err := git.CommitTree(l.at.root, commit)
	if err != nil {
		return err
	}
	in.Compared.Base, in.Compared.BaseCommit, in.Compared.BaseErrors = name, commit, 0
	built := render.Result{}
	if files, ok := l.at.in(old); ok {
		built = render.Overlay(l.validator, files, l.at.dir, manifest.Options{})
	}
	for _, f := range built.Findings {
		if f.Severity == finding.Error {
			in.Compared.BaseErrors++
		}
	}
	in.Base, in.Files = objectsOf(built.Set), differing(old, l.tree, slices.Concat(built.Files, l.head.Files))
	return nil
}

// differing are the files of both that differ, sorted.
func differing(old, now overlay.Files, paths []string) []string {
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(p string) bool {
		a, errA := old.ReadFile(p)
		b, errB := now.ReadFile(p)
		return bytes.Equal(a, b) && errors.Is(errA, fs.ErrNotExist) == errors.Is(errB, fs.ErrNotExist)
	})
}
