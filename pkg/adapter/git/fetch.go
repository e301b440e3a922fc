package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// searchDepth is how far back a ref is searched for a commit that the server does not hand out by its name.
const searchDepth = 200

var errMoved = errors.New("ref moved during the fetch")

// Fetch reads the tree of exactly the revision's commit. The pack is held in memory within the source's limits; nothing is
// written to disk. When the ref moves between listing and fetching, it tries once more; a commit that the server no longer
// hands out is ReasonRefMoved (Resolve again), or ReasonCommitNotFound where Source.Ref.Commit named it. Errors are *Error.
func Fetch(ctx context.Context, source Source, revision Revision) (*Tree, error) {
	e, err := parseURL(source)
	if err == nil {
		err = checkVerify(source)
	}
	if err != nil {
		return nil, err
	}
	if !fullSHA.MatchString(revision.Commit) {
		return nil, failure(ReasonInvalidRef, "revision %s names no full commit", quote(revision.String()))
	}
	ctx, cancel := context.WithTimeout(ctx, source.timeout())
	defer cancel()
	source.spent = newBudget(source.Limits)
	tree, err := fetchTree(ctx, source, e, revision)
	if err == nil {
		err = source.Verify.verify(tree, revision)
	}
	if err != nil {
		return nil, err
	}
	return tree, nil
}

func fetchTree(ctx context.Context, source Source, e endpoint, revision Revision) (*Tree, error) {
	if e.scheme == "file" {
		return localTree(e.path, source, revision)
	}
	tree, err := fetchRemote(ctx, source, e, revision)
	if err != nil || !source.RecurseSubmodules {
		return tree, err
	}
	return tree, (&grafter{source: source, tree: tree}).graft(ctx, site{dir: ".", at: e, url: source.URL})
}

// FetchAt reads the tree of a commit of which is known at which ref (a full name, for example refs/heads/main or
// refs/pull/7/head) it is, or was: at depth 1 as long as the server hands it out; else the newest commits of that ref are searched
// for it. A commit that is not found is ReasonCommitNotFound. Errors are *Error.
func FetchAt(ctx context.Context, source Source, fullName, commit string) (*Tree, error) {
	source.Ref = Ref{Name: fullName, Commit: commit}
	return Fetch(ctx, source, Revision{Ref: shortName(fullName), FullName: fullName, Commit: commit})
}

func fetchRemote(ctx context.Context, source Source, e endpoint, revision Revision) (*Tree, error) {
	var tree *Tree
	err := errMoved
	for _, search := range []bool{false, source.searches()} {
		if !errors.Is(err, errMoved) {
			return tree, err
		}
		tree, err = fetchOnce(ctx, newRemote(source, e), errand{revision, search, source.Verify != nil && source.Verify.Mode.tag()})
	}
	if errors.Is(err, errMoved) {
		return nil, movedError(source, e, revision).because(err)
	}
	return tree, err
}

// searches says whether a commit that the server does not hand out is looked for in the history of a ref: where a person named it,
// and a ref that has it. A ref that is followed and has moved is resolved again instead.
func (s Source) searches() bool {
	return s.Ref.Commit != "" && (s.Ref.Branch != "" || s.Ref.Name != "")
}

func movedError(source Source, e endpoint, revision Revision) *Error {
	switch {
	case source.searches():
		return failure(ReasonCommitNotFound, "%s does not hand out commit %s, and it is not among the newest %d of %s",
			e.name(), revision.Commit, searchDepth, revision.Ref)
	case source.Ref.Commit != "":
		return failure(ReasonCommitNotFound, "%s has no commit %s, or does not hand it out; set a branch that contains it",
			e.name(), revision.Commit)
	}
	return failure(ReasonRefMoved, "%s of %s moved away from %s while it was read; the next attempt takes the new commit",
		revision.Ref, e.name(), revision.Commit)
}

// errand is what one conversation is to bring: a commit, at depth 1 or out of the history of its ref.
type errand struct {
	revision Revision
	search   bool
	tag      bool // the tag that leads to the commit is needed, too
}

func fetchOnce(ctx context.Context, r *remote, job errand) (*Tree, error) {
	store, want, err := r.download(ctx, job)
	if refusesCommit(errOrNil(err)) {
		return nil, fmt.Errorf("%w: %w", errMoved, err)
	}
	if err != nil {
		return nil, r.classify(ctx, err)
	}
	commit := plumbing.NewHash(job.revision.Commit)
	if store.HasEncodedObject(commit) != nil { // the server sent something else than it promised
		return nil, errMoved
	}
	r.enter("reading the files")
	return newTree(store, commit, want, r.source.Limits.withDefaults())
}

// errOrNil lets predicates that read an error's text see a nil error too.
func errOrNil(err error) error {
	if err == nil {
		return errors.New("")
	}
	return err
}

// download opens one session and reads one pack. It returns the object that was asked for: the commit, or the annotated tag
// that leads to it.
func (r *remote) download(ctx context.Context, job errand) (storer.EncodedObjectStorer, plumbing.Hash, error) {
	s, err := r.open(ctx)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	defer func() { _ = s.Close() }() // what was read is complete or refused
	advertised, err := s.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	w, err := job.wish(advertisedRefs(advertised))
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	w.offered = advertised.Capabilities
	store, err := r.readPack(ctx, s, w)
	return store, w.want, err
}

// wish says what to ask for: the ref's own object while it leads to the commit, else the bare commit; or, to search, the newest
// commits of the ref.
func (e errand) wish(have refs) (wish, error) {
	tip := have.commit(e.revision.FullName)
	switch {
	case tip == e.revision.Commit:
		return wish{want: plumbing.NewHash(have.objects[e.revision.FullName]), depth: 1}, nil
	case e.tag:
		return wish{}, errNotOurRef
	case !e.search:
		return wish{want: plumbing.NewHash(e.revision.Commit), depth: 1}, nil
	case tip == "":
		return wish{}, errNotOurRef // the ref is gone, too
	}
	return wish{want: plumbing.NewHash(tip), depth: searchDepth}, nil
}

// wish is one object to fetch with some history.
type wish struct {
	want    plumbing.Hash
	depth   int
	offered *capability.List
}

func (w wish) request() (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(w.offered)
	req.Wants = []plumbing.Hash{w.want}
	if !w.offered.Supports(capability.Shallow) {
		return req, nil // a server without shallow sends everything; the limits hold
	}
	req.Depth = packp.DepthCommits(w.depth)
	if err := req.Capabilities.Set(capability.Shallow); err != nil {
		return nil, fmt.Errorf("ask for depth %d: %w", w.depth, err)
	}
	if w.offered.Supports(capability.NoProgress) {
		return req, req.Capabilities.Set(capability.NoProgress)
	}
	return req, nil
}

func (r *remote) readPack(ctx context.Context, s session, w wish) (storer.EncodedObjectStorer, error) {
	req, err := w.request()
	if err != nil {
		return nil, err
	}
	res, err := s.UploadPack(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Close() }()
	turn := turn{of: r}
	defer turn.end()
	pack, err := turn.readAll(ctx, demultiplexed(req.Capabilities, res))
	if ctx.Err() == nil && isAny(io.ErrUnexpectedEOF, pktline.ErrInvalidPktLen)(err) {
		return nil, r.damaged(err)
	}
	if err != nil {
		return nil, err
	}
	return r.unpack(pack)
}

func demultiplexed(used *capability.List, res io.Reader) io.Reader {
	switch {
	case used.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case used.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// readObject returns the raw content of an object; nil where it is missing or of another type.
func readObject(store storer.EncodedObjectStorer, hash plumbing.Hash, types ...plumbing.ObjectType) []byte {
	object, err := store.EncodedObject(plumbing.AnyObject, hash)
	if err != nil || !slices.Contains(types, object.Type()) {
		return nil
	}
	content, err := readEncoded(object)
	if err != nil {
		return nil
	}
	return content
}

func readEncoded(object plumbing.EncodedObject) ([]byte, error) {
	reader, err := object.Reader()
	if err != nil {
		return nil, fmt.Errorf("open object: %w", err)
	}
	content, err := io.ReadAll(reader)
	if err = errors.Join(err, reader.Close()); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return content, nil
}
