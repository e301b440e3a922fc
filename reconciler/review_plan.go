package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/finding"
	"github.com/fleetwright/fleetwright/pkg/core/preview"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
	"github.com/fleetwright/fleetwright/pkg/core/simulate"
)

// maxPairs bounds how many pairs of a node and a package of a NodeWright are planned for, of both states together: a pull request must not exhaust
// the memory of who plans it. It is 100 NodeWrights of four packages on 10 000 nodes.
const maxPairs = 8_000_000

// change is one pull request that is to be planned, and what is known of it so far.
type change struct {
	pull      review.Pull
	memory    *pullReview
	key       reviewKey
	mergeBase string
	in        preview.Input
	began     time.Time
}

// side is a commit of the branch and what is built from it.
type side struct {
	tree  ListedTree
	built PullBuild
}

// plan makes a plan of every pull request that is new, or about which something changed. The cluster is looked at once for all.
func (r *Review) plan(ctx context.Context, p *reviewPass) error {
	admitted := slices.DeleteFunc(slices.Clone(p.pulls), func(pull review.Pull) bool {
		return p.memory.pull(pull.Number).review.Admission != review.Planned
	})
	if len(admitted) == 0 {
		return nil
	}
	var err error
	if p.branch, err = r.Source.Resolve(ctx, p.fleet); err != nil {
		return err
	}
	cluster, digest, err := r.Cluster.Look(ctx, p.fleet)
	if err != nil {
		return fmt.Errorf("look at the cluster: %w", err)
	}
	for _, pull := range admitted {
		key := reviewKey{pull.Head, p.branch.Commit, p.fleet.Generation, digest}
		if m := p.memory.pull(pull.Number); r.stale(m, key, p.now) {
			p.due = append(p.due, &change{pull: pull, memory: m, key: key, in: cluster})
		}
	}
	if len(p.due) == 0 {
		return nil
	}
	p.portion()
	if err := r.publishStatuses(ctx, p); err != nil { // those that are new are pending now
		return err
	}
	if err := r.baseOf(ctx, p); err != nil {
		return err
	}
	p.due = slices.DeleteFunc(p.due, func(c *change) bool { return !r.prepare(ctx, p, c) })
	return r.finish(ctx, p)
}

const (
	// maxAtOnce is how many pull requests one pass plans: what is built of them is in memory at the same time, and is published at its end.
	maxAtOnce = 20
	// morePause is between two passes where some are left over.
	morePause = time.Second
)

// portion keeps those that wait longest, new ones first. One that was tried not long ago is no reason to come back early.
func (p *reviewPass) portion() {
	slices.SortStableFunc(p.due, func(a, b *change) int { return a.memory.triedAt.Compare(b.memory.triedAt) })
	if len(p.due) <= maxAtOnce {
		return
	}
	p.more = slices.ContainsFunc(p.due[maxAtOnce:], func(c *change) bool { return p.now.Sub(c.memory.triedAt) >= intervalOf(p.fleet) })
	p.due = p.due[:maxAtOnce]
}

// stale reports whether a plan has to be made anew.
func (r *Review) stale(m *pullReview, key reviewKey, now time.Time) bool {
	was, age := m.made, now.Sub(m.madeAt)
	cluster := was.cluster != key.cluster
	was.cluster = key.cluster
	switch {
	case m.madeAt.IsZero(), was != key, m.review.Trouble != "":
		return true
	case cluster && age >= max(cmp.Or(r.ClusterEvery, DefaultClusterEvery), 4*m.took):
		return true
	}
	return age >= cmp.Or(r.Refresh, DefaultRefresh)
}

// prepare builds both states of a pull request. It returns false if that is its end for now.
func (r *Review) prepare(ctx context.Context, p *reviewPass, c *change) bool {
	c.began = r.Now()
	c.memory.triedAt = c.began
	err := r.build(ctx, p, c)
	if err == nil {
		err = tooMany(c.in)
	}
	if err == nil {
		return true
	}
	r.failed(ctx, p, c, err)
	return false
}

// failed notes how a pull request could not be planned: for what it is, or for now. A plan that was made before stands while the trouble is not its own.
func (r *Review) failed(ctx context.Context, p *reviewPass, c *change, err error) {
	if ctx.Err() != nil {
		return
	}
	m := c.memory
	if failure, ok := asFailure(err); ok && failure.Stalled {
		m.review.Plan, m.review.Refused, m.review.Trouble = nil, failure.Message, ""
		r.done(c, "refused")
		return
	}
	p.fail(fmt.Errorf("pull request %d: %w", c.pull.Number, err))
	r.Metrics.review("trouble", r.Now().Sub(c.began))
	if !m.hasVerdict() {
		m.review.Trouble, m.published = err.Error(), false
	}
}

// done notes that there is something to say.
func (r *Review) done(c *change, result string) {
	now := r.Now()
	c.memory.made, c.memory.madeAt, c.memory.took, c.memory.published = c.key, now, now.Sub(c.began), false
	r.Metrics.review(result, c.memory.took)
}

// build fetches, merges and builds.
func (r *Review) build(ctx context.Context, p *reviewPass, c *change) error {
	if c.pull.Fork && p.fleet.Spec.Source.RecurseSubmodules {
		return submodulesOfFork()
	}
	if c.pull.Fork && c.pull.HeadRef == "" {
		return unreachableHead()
	}
	head, err := r.Source.FetchCommit(ctx, p.fleet, c.pull.Head, c.pull.HeadRef)
	if err != nil {
		return err
	}
	old, note := r.fetchMergeBase(ctx, p, c)
	merge := review.MergeFiles(p.base.tree.Listing(), head.Listing(), listingOf(old))
	built, err := r.Builder.Build(ctx, p.fleet, mergedTree{base: p.base.tree, head: head, merge: merge}, c.pull.Fork)
	if err != nil {
		return err
	}
	read := slices.Concat(built.Files, p.base.built.Files)
	if both := merge.BothOf(read); len(both) > 0 {
		c.note(report.BothChangedNote(p.branch.Short, both))
		err = r.buildApart(ctx, p, c, [2]ListedTree{old, head})
	} else {
		c.note(note)
		c.in.Compared = preview.Comparison{
			Base: p.branch.Short, BaseCommit: p.branch.Commit, Head: fmt.Sprintf("pull request %d, merged", c.pull.Number), HeadCommit: c.pull.Head,
		}
		c.in.Files = pathsWhere(read, func(f string) bool { return merge.FromHead[f] || merge.Gone[f] })
		c.fill(p.fleet, p.base.built, built)
	}
	if why := head.Unsigned(); why != "" {
		c.note(report.UnsignedNote(why))
	}
	return err
}

// submodulesOfFork: a fork could name any repository of the server as its submodule, and read it with the Fleet's credentials.
func submodulesOfFork() error {
	return &report.Failure{Reason: report.ReasonUnsupported, Stalled: true,
		Message: "not planned, as it is from a fork and the Fleet reads submodules (spec.source.recurseSubmodules); push it to a branch of this repository"}
}

// unreachableHead: some forges show pull requests from forks and keep nothing of them where they are to be merged.
func unreachableHead() error {
	return &report.Failure{Reason: report.ReasonUnsupported, Stalled: true,
		Message: "cannot be read: it is from a fork, of which this forge keeps nothing in this repository; push it to a branch of this repository"}
}

// buildApart is for a merge that is git's to make: the head as it is, against the commit where it began.
func (r *Review) buildApart(ctx context.Context, p *reviewPass, c *change, trees [2]ListedTree) error {
	built, err := r.Builder.Build(ctx, p.fleet, trees[1], c.pull.Fork)
	if err != nil {
		return err
	}
	was, err := r.sideOf(ctx, p, trees[0])
	if err != nil {
		return err
	}
	c.in.Compared = preview.Comparison{
		Base: "the commit where it began", BaseCommit: c.mergeBase, Behind: p.branch.Commit,
		Head: fmt.Sprintf("pull request %d", c.pull.Number), HeadCommit: c.pull.Head,
	}
	before, after := trees[0].Listing(), trees[1].Listing()
	c.in.Files = pathsWhere(slices.Concat(built.Files, was.built.Files), func(f string) bool { return before[f] != after[f] })
	c.fill(p.fleet, was.built, built)
	return nil
}

// pathsWhere are the paths that a test keeps, sorted.
func pathsWhere(paths []string, keep func(string) bool) []string {
	paths = slices.DeleteFunc(slices.Clone(paths), func(f string) bool { return !keep(f) })
	slices.Sort(paths)
	return slices.Compact(paths)
}

// baseOf fetches and builds the head of the branch.
func (r *Review) baseOf(ctx context.Context, p *reviewPass) error {
	tree, err := r.Source.FetchCommit(ctx, p.fleet, p.branch.Commit, p.branch.Ref)
	if err != nil {
		return err
	}
	p.base, err = r.sideOf(ctx, p, tree)
	return err
}

// fetchMergeBase fetches the commit where a pull request began. Where that is not possible a note says so, and the merge is the head.
func (r *Review) fetchMergeBase(ctx context.Context, p *reviewPass, c *change) (old ListedTree, note string) {
	var err error
	c.mergeBase, err = p.forge.MergeBase(ctx, c.pull)
	switch {
	case err != nil, c.mergeBase == "":
		return nil, report.NoMergeBaseNote(p.branch.Short)
	case c.mergeBase == p.branch.Commit:
		return p.base.tree, ""
	}
	if old, err = r.Source.FetchCommit(ctx, p.fleet, c.mergeBase, p.branch.Ref); err != nil {
		return nil, report.NoMergeBaseNote(p.branch.Short)
	}
	return old, ""
}

func listingOf(tree ListedTree) review.Listing {
	if tree == nil {
		return nil
	}
	return tree.Listing()
}

// sideOf builds a commit of the branch.
func (r *Review) sideOf(ctx context.Context, p *reviewPass, tree ListedTree) (*side, error) {
	built, err := r.Builder.Build(ctx, p.fleet, tree, false)
	if failure, ok := asFailure(err); ok {
		return nil, fmt.Errorf("the branch %s cannot be built: %s", p.branch.Short, failure.Message) // not the pull request's fault
	}
	if err != nil {
		return nil, err
	}
	return &side{tree, built}, nil
}

// fill puts both states into the input.
func (c *change) fill(fleet *fleetv1.Fleet, was, is PullBuild) {
	c.in.Path = fleet.Spec.Path
	if fleet.Spec.Suspend {
		c.note("when it is applied, as the Fleet is suspended")
	}
	if report.Inherited(was.Findings, is.Findings) {
		c.note(report.InheritedNote(c.in.Compared.Base, is.Findings))
		return
	}
	for _, f := range was.Findings {
		if f.Severity == finding.Error {
			c.in.Compared.BaseErrors++
		}
	}
	c.in.Base, c.in.Head, c.in.Findings = was.Objects, is.Objects, is.Findings
}

// note adds a sentence to the notes, which the inputs of other pull requests share.
func (c *change) note(text string) {
	if text != "" {
		c.in.Notes = append(slices.Clip(c.in.Notes), text)
	}
}

func tooMany(in preview.Input) error {
	packages := func(o simulate.Objects) (n int) {
		for _, nw := range o.NodeWrights {
			n += max(1, len(nw.Spec.Packages))
		}
		return n
	}
	if pairs := len(in.Nodes) * (packages(in.Base) + packages(in.Head)); pairs > maxPairs {
		return &report.Failure{Reason: report.ReasonUnsupported, Stalled: true, Message: fmt.Sprintf(
			"too large to plan: %d packages of NodeWrights on %d nodes are too many (allowed: %d pairs, old and new)", packages(in.Head), len(in.Nodes), maxPairs)}
	}
	return nil
}

// finish reads the pods that matter, once for all, and makes the plans.
func (r *Review) finish(ctx context.Context, p *reviewPass) error {
	var nodes []string
	p.due = slices.DeleteFunc(p.due, func(c *change) bool {
		of, err := disturbed(c.in)
		nodes = append(nodes, of...)
		if err != nil {
			r.failed(ctx, p, c, err)
		}
		return err != nil
	})
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	for i, c := range p.due {
		if i == 0 {
			c.in.Nodes = slices.Clone(c.in.Nodes)
			if err := r.Cluster.AddPods(ctx, &c.in, nodes); err != nil {
				return err
			}
		} else {
			c.in.Nodes, c.in.PodsKnown = p.due[0].in.Nodes, p.due[0].in.PodsKnown
		}
	}
	for _, c := range p.due {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the process ends
		}
		made, err := makePlan(c.in)
		if err != nil {
			r.failed(ctx, p, c, err)
			continue
		}
		c.memory.review.Plan, c.memory.review.Refused, c.memory.review.Trouble = &made, "", ""
		r.done(c, string(made.Result))
	}
	return nil
}

// makePlan plans text that nobody has approved: a defect that it finds must not hold up the plans of others.
func makePlan(in preview.Input) (made preview.Plan, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = defect(problem)
		}
	}()
	return preview.Make(in), nil
}

// disturbed are the nodes whose pods matter to a plan.
func disturbed(in preview.Input) (nodes []string, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = defect(problem)
		}
	}()
	return preview.Disturbed(in), nil
}

func defect(problem any) error {
	return &report.Failure{Reason: report.ReasonBuildFailed, Stalled: true, Message: report.Cut(fmt.Sprintf("it meets a defect of Fleetwright's planner: %v", problem), report.MaxMessage)}
}

// mergedTree is a merge, file by file.
type mergedTree struct {
	base, head ListedTree
	merge      review.Merge
}

// Paths implements Tree.
func (t mergedTree) Paths() []string {
	var out []string
	for _, path := range t.base.Paths() {
		if !t.merge.Gone[path] && !t.merge.FromHead[path] {
			out = append(out, path)
		}
	}
	for path := range t.merge.FromHead {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// ReadFile implements Tree. Why a file cannot be read the head knows: it may be a link that leads out of the repository.
func (t mergedTree) ReadFile(path string) ([]byte, error) {
	if t.merge.FromHead[path] {
		return t.head.ReadFile(path)
	}
	if !t.merge.Gone[path] {
		if data, err := t.base.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
			return data, err
		}
	}
	if _, err := t.head.ReadFile(path); err != nil {
		return nil, err
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist} // the branch removed it since
}
