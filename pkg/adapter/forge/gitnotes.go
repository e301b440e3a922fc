package forge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"time"

	git "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/storage/memory"
)

// NotesRef is the ref of the notes: `git notes --ref=fleetwright` reads it.
const NotesRef = plumbing.ReferenceName("refs/notes/fleetwright")

const (
	// pushAttempts bounds how often one status is tried while other writers win the race for the ref.
	pushAttempts = 8
	// refusals is how often the server may refuse an update of a ref that nobody moved, before it is taken at its word.
	refusals = 3
	// keepWrites is after how many writes the objects in memory are dropped and read afresh.
	keepWrites = 64
	// maxAbandoned is how many calls may outlive their context.
	maxAbandoned = 8
)

// GitNotesConfig says where the notes live. The same values serve as for fetching the source.
type GitNotesConfig struct {
	// URL of the repository, as in Fleet.spec.source.url. Required.
	URL string
	// Auth must be allowed to push to refs/notes/fleetwright. Nil: anonymous.
	Auth transport.AuthMethod
	// CABundle holds PEM certificates that are trusted beside the system's. Optional.
	CABundle []byte
	// Now gives the time that is written into lines and commits. Default time.Now.
	Now func() time.Time
	// Pause waits between two tries of a race, and returns early with the context. Default: a timer.
	Pause func(ctx context.Context, d time.Duration)
}

// GitNotes keeps statuses in git notes, for any git server: the note of a commit in refs/notes/fleetwright has one JSON line for
// each status, the newest last. Updates are fast-forwards only, so that several clusters can write to one repository.
type GitNotes struct {
	cfg    GitNotesConfig
	redact redactor
	calls  chan struct{} // holds one value for each call that has not ended
	turn   chan struct{} // holds one value while nobody works: the snapshot below is not for two at a time
	last   *snapshot
}

// snapshot is what is known of the notes ref: its head and the objects below it.
type snapshot struct {
	store  *memory.Storage
	head   plumbing.Hash // zero: the ref does not exist
	writes int
}

// NewGitNotes prepares a provider and calls nobody.
func NewGitNotes(cfg GitNotesConfig) *GitNotes {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Pause == nil {
		cfg.Pause = pause
	}
	n := &GitNotes{cfg: cfg, redact: secretsOf(cfg), turn: make(chan struct{}, 1), calls: make(chan struct{}, maxAbandoned)}
	n.turn <- struct{}{}
	return n
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// secretsOf lists the texts of a configuration that must not appear in an error.
func secretsOf(cfg GitNotesConfig) redactor {
	var secrets redactor
	switch auth := cfg.Auth.(type) {
	case *githttp.BasicAuth:
		secrets = append(secrets, auth.Password)
		if auth.Password == "" {
			secrets = append(secrets, auth.Username) // some servers take a token as the user name
		}
	case *githttp.TokenAuth:
		secrets = append(secrets, auth.Token)
	}
	if u, err := url.Parse(cfg.URL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		secrets = append(secrets, password)
	}
	return secrets
}

// Capabilities of git notes: no limit of their own; descriptions keep the length that fits every forge.
func (n *GitNotes) Capabilities() Capabilities {
	return Capabilities{DescriptionLimit: DefaultDescriptionLimit, LiveText: true}
}

// Statuses reads the note of the commit. Nothing is fetched if the notes ref did not move since the last call.
func (n *GitNotes) Statuses(ctx context.Context, commit string) ([]Status, error) {
	release, err := n.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	snap, perr := n.refresh(ctx)
	if perr != nil {
		return nil, perr
	}
	note, err := snap.note(commit)
	if err != nil {
		return nil, n.redact.fail(Permanent, "read status", err)
	}
	return newest(note, commit), nil
}

// SetStatus appends the status to the note of its commit, unless the newest line of the context says the same.
func (n *GitNotes) SetStatus(ctx context.Context, s Status) error {
	s = n.Capabilities().Fit(s)
	if err := s.Validate(); err != nil {
		return err
	}
	release, err := n.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	return n.race(ctx, s)
}

// enter waits for the turn to work on the snapshot.
func (n *GitNotes) enter(ctx context.Context) (release func(), err error) {
	select {
	case <-ctx.Done():
		return nil, n.redact.fail(Retry, "wait for the notes ref", ctx.Err())
	case <-n.turn:
		return func() { n.turn <- struct{}{} }, nil
	}
}

// race reads, writes and pushes until the push wins, the server refuses for good, or pushAttempts are used up.
func (n *GitNotes) race(ctx context.Context, s Status) error {
	var lost *ProviderError
	var refused plumbing.Hash // the head at the last refusal
	count := 0                // refusals at that head
	for attempt := range pushAttempts {
		if attempt > 0 {
			n.cfg.Pause(ctx, rand.N(time.Duration(attempt)*200*time.Millisecond))
		}
		snap, perr := n.refresh(ctx)
		if perr != nil {
			return perr
		}
		head, final := snap.head, false
		if lost, final = n.push(ctx, snap, s); lost == nil || final {
			return orNil(lost)
		}
		if head != refused {
			refused, count = head, 0
		}
		if saysLocked(lost.Message) {
			continue // another writer has just begun
		}
		if count++; count >= refusals { // nobody else writes: it is not a race
			return permanent(lost.Op, lost.Message)
		}
	}
	lost.Message = fmt.Sprintf("other writers won the race for %s %d times: %s", NotesRef, pushAttempts, lost.Message)
	return lost
}

// bounded ends with the context, whatever the call does: go-git's SSH transport knows no end for the handshake, and a server
// that accepts and stays silent would hold up every later status. The call is left alone then, together with the memory that
// it works on; of such calls there are at most maxAbandoned.
func (n *GitNotes) bounded(ctx context.Context, call func() error) error {
	select {
	case n.calls <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-n.calls }()
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// orNil keeps a nil pointer from becoming an error that is not nil.
func orNil(perr *ProviderError) error {
	if perr == nil {
		return nil
	}
	return perr
}

// push adds the status to the snapshot and sends it. final says that another try would not help now.
func (n *GitNotes) push(ctx context.Context, snap *snapshot, s Status) (perr *ProviderError, final bool) {
	const op = "push status to git notes"
	head, changed, err := snap.add(s, n.cfg.Now())
	if err != nil {
		n.last = nil
		return n.redact.fail(Permanent, op, err), true
	}
	if !changed {
		return nil, true
	}
	err = n.bounded(ctx, func() error {
		return n.remote(snap.store).PushContext(ctx, &git.PushOptions{
			RefSpecs: []config.RefSpec{config.RefSpec(NotesRef + ":" + NotesRef)}, // no "+": never force
			Auth:     n.cfg.Auth, CABundle: n.cfg.CABundle,
		})
	})
	if err == nil || errors.Is(err, git.NoErrAlreadyUpToDate) {
		snap.head, snap.writes = head, snap.writes+1
		return nil, true
	}
	n.last = nil // what the server has now must be read again
	return n.classify(op, err)
}

// refresh asks for the head of the notes ref and fetches it at depth 1 if it moved.
func (n *GitNotes) refresh(ctx context.Context) (*snapshot, *ProviderError) {
	const op = "read git notes"
	head, err := n.head(ctx)
	if err != nil {
		perr, _ := n.classify(op, err)
		return nil, perr
	}
	if n.last != nil && n.last.head == head && n.last.writes < keepWrites {
		return n.last, nil
	}
	snap, err := n.fetch(ctx, head)
	if err != nil {
		perr, _ := n.classify(op, err)
		return nil, perr
	}
	n.last = snap
	return snap, nil
}

func (n *GitNotes) remote(store *memory.Storage) *git.Remote {
	return git.NewRemote(store, &config.RemoteConfig{Name: git.DefaultRemoteName, URLs: []string{n.cfg.URL}})
}

// head is the hash that the server advertises for the notes ref; zero if there is none or the repository is empty.
func (n *GitNotes) head(ctx context.Context) (plumbing.Hash, error) {
	var refs []*plumbing.Reference
	err := n.bounded(ctx, func() (err error) {
		refs, err = n.remote(memory.NewStorage()).ListContext(ctx, &git.ListOptions{Auth: n.cfg.Auth, CABundle: n.cfg.CABundle})
		return err
	})
	if err != nil && !errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return plumbing.ZeroHash, err
	}
	for _, ref := range refs {
		if ref.Name() == NotesRef {
			return ref.Hash(), nil
		}
	}
	return plumbing.ZeroHash, nil
}

// fetch reads the head of the notes ref into fresh memory: go-git neither packs nor collects what is no longer used.
func (n *GitNotes) fetch(ctx context.Context, head plumbing.Hash) (*snapshot, error) {
	snap := &snapshot{store: memory.NewStorage()}
	if head.IsZero() {
		return snap, nil
	}
	err := n.bounded(ctx, func() error {
		return n.remote(snap.store).FetchContext(ctx, &git.FetchOptions{
			RefSpecs: []config.RefSpec{config.RefSpec("+" + NotesRef + ":" + NotesRef)},
			Depth:    1, Tags: git.NoTags, Auth: n.cfg.Auth, CABundle: n.cfg.CABundle,
		})
	})
	if err != nil && !errors.Is(err, git.NoErrAlreadyUpToDate) {
		return nil, err
	}
	ref, err := snap.store.Reference(NotesRef)
	if err != nil {
		return nil, err
	}
	snap.head = ref.Hash()
	return snap, nil
}

// classify maps what go-git reports. final is false for refusals that may be a lost race: reading again tells.
func (n *GitNotes) classify(op string, err error) (perr *ProviderError, final bool) {
	if answer := httpAnswer(err); answer != nil {
		return n.redact.httpFailure(op, answer.Response, n.cfg.Now()), true
	}
	perr = n.redact.fail(Retry, op, err)
	var netErr net.Error
	switch {
	case perr.cause != nil, errors.As(err, &netErr), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return perr, true
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return permanent(op, "the server asks for a credential, or does not accept the given one"), true
	case errors.Is(err, transport.ErrAuthorizationFailed), saysReadOnly(perr.Message):
		return permanent(op, fmt.Sprintf("the credential may not do this (needed: read and write access to %s)", NotesRef)), true
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return permanent(op, "repository not found, or the credential may not see it"), true
	}
	return perr, false
}

// saysReadOnly recognises the words in which SSH servers refuse a push: there is no status code to look at.
func saysReadOnly(message string) bool {
	message = strings.ToLower(message)
	for _, words := range []string{"read only", "read-only", "permission denied", "access denied", "not allowed to push"} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

// saysLocked recognises a server on which another push holds the ref: nobody has moved it yet, and somebody is about to. Git's
// own server says no more than "failed to update ref"; a hook's refusal reads otherwise.
func saysLocked(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "failed to update ref") || strings.Contains(message, "lock")
}

// httpAnswer finds the HTTP answer below go-git's error, which does not unwrap.
func httpAnswer(err error) *githttp.Err {
	var unexpected *plumbing.UnexpectedError
	if errors.As(err, &unexpected) {
		err = unexpected.Err
	}
	var answer *githttp.Err
	if errors.As(err, &answer) && answer.Response != nil {
		return answer
	}
	return nil
}

// note returns the note of a commit; nil if it has none.
func (s *snapshot) note(commit string) ([]byte, error) {
	tree, err := s.tree()
	if err != nil || tree.IsZero() {
		return nil, err
	}
	return notesTree{s.store}.read(tree, commit)
}

func (s *snapshot) tree() (plumbing.Hash, error) {
	if s.head.IsZero() {
		return plumbing.ZeroHash, nil
	}
	commit, err := object.GetCommit(s.store, s.head)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read notes commit: %w", err)
	}
	return commit.TreeHash, nil
}

// add commits the note with the status on top of the snapshot and points the local ref at it. changed is false, and nothing is
// done, if the note says it already.
func (s *snapshot) add(status Status, now time.Time) (head plumbing.Hash, changed bool, err error) {
	old, err := s.note(status.Commit)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	note, changed := appendLine(old, status, now)
	if !changed {
		return s.head, false, nil
	}
	head, err = s.commit(status, note, now)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	return head, true, s.store.SetReference(plumbing.NewHashReference(NotesRef, head))
}

func (s *snapshot) commit(status Status, note []byte, now time.Time) (plumbing.Hash, error) {
	tree, err := s.tree()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	t := notesTree{s.store}
	blob, err := t.saveBlob(note)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if tree, err = t.write(tree, status.Commit, blob); err != nil {
		return plumbing.ZeroHash, err
	}
	who := object.Signature{Name: "fleetwright", Email: "noreply@fleetwright.dev", When: now.UTC()}
	commit := &object.Commit{
		Author: who, Committer: who, TreeHash: tree,
		Message: fmt.Sprintf("%s: %s is %s\n", status.Context, status.Commit[:12], status.State),
	}
	if !s.head.IsZero() {
		commit.ParentHashes = []plumbing.Hash{s.head}
	}
	return t.save(commit)
}
