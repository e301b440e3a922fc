package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
	"github.com/fleetwright/fleetwright/pkg/core/review"
)

// Defaults of Review.
const (
	// DefaultClusterEvery is how often a plan is made anew because the cluster changed.
	DefaultClusterEvery = 5 * time.Minute
	// DefaultRefresh is when a plan is made anew although nothing is known to have changed: pods and budgets are not watched.
	DefaultRefresh = time.Hour
)

// Review plans the open pull requests to the branches of Fleets, and says on them what would happen. It reads the cluster, and writes
// nothing there but events. All that it remembers may be lost.
type Review struct {
	// Reader reads Fleets. Required.
	Reader client.Reader
	// Forges, Source, Builder and Cluster are the outside world. Required.
	Forges  PullForges
	Source  PullSource
	Builder PullBuilder
	Cluster PullCluster
	// Events goes to people. Required.
	Events events.EventRecorder
	// Metrics counts. Required.
	Metrics *ReviewMetrics
	// Now is the clock. Required.
	Now func() time.Time
	// ClusterEvery and Refresh: see the defaults, which stand in for zero.
	ClusterEvery, Refresh time.Duration

	memory reviewMemory
	hosts  hostGate
}

// reviewPass is one look at the pull requests of one Fleet.
type reviewPass struct {
	fleet  *fleetv1.Fleet
	memory *fleetReview
	forge  PullForge
	pulls  []review.Pull
	now    time.Time
	branch Revision
	base   *side
	due    []*change
	// more says that some are left for another pass, as one takes only so many. unread are those of which the past could not be read.
	more   bool
	unread int
	// trouble is the first thing that did not work, and after how long to come back for it.
	trouble    error
	retryAfter time.Duration
}

// Reconcile looks at the pull requests of one Fleet.
func (r *Review) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	fleet := &fleetv1.Fleet{}
	if err := r.Reader.Get(ctx, request.NamespacedName, fleet); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request, "the Fleet was deleted")
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read fleet: %w", err)
	}
	if !fleet.DeletionTimestamp.IsZero() || !report.PlansPulls(fleet.Spec) {
		r.forget(request, "the Fleet plans no pull requests any more")
		return ctrl.Result{}, nil
	}
	host := hostOf(fleet.Spec.Source.URL)
	if !r.hosts.enter(host) {
		return ctrl.Result{RequeueAfter: hostPause}, nil
	}
	defer r.hosts.leave(host)
	p := &reviewPass{fleet: fleet, memory: r.memory.of(fleet), now: r.Now()}
	if err := r.pass(ctx, p); err != nil {
		p.fail(err)
	}
	if ctx.Err() != nil {
		return ctrl.Result{}, nil //nolint:nilerr // the process ends; that is nobody's trouble
	}
	r.tell(ctx, p)
	return ctrl.Result{RequeueAfter: max(r.pause(p), p.retryAfter)}, nil
}

// pause is short where pull requests are left over.
func (r *Review) pause(p *reviewPass) time.Duration {
	if p.more {
		return morePause
	}
	return intervalOf(p.fleet)
}

// fail notes trouble; the first is told.
func (p *reviewPass) fail(err error) {
	p.trouble = cmp.Or(p.trouble, err)
	var later retryLater
	if errors.As(err, &later) {
		p.retryAfter = max(p.retryAfter, later.RetryAfter())
	}
}

// pass lists, admits, builds, plans and writes.
func (r *Review) pass(ctx context.Context, p *reviewPass) error {
	var err error
	if p.forge, err = r.Forges.Forge(ctx, p.fleet); err != nil {
		return err
	}
	if p.pulls, err = p.forge.OpenPulls(ctx, report.TrackedBranch(p.fleet.Spec)); err != nil {
		return fmt.Errorf("list pull requests: %w", err)
	}
	p.pulls = review.Trusted(p.pulls)
	p.memory.keep(p.pulls)
	if err := r.admit(ctx, p); err != nil {
		return err
	}
	if err := r.plan(ctx, p); err != nil {
		r.stumble(p, err)
		p.fail(err)
	}
	r.publish(ctx, p)
	return nil
}

// maxUnread is of how many pull requests in one pass the past may not be readable: then the forge is the trouble, and not one of them.
const maxUnread = 3

// admit decides which pull requests are planned. One of which nobody can tell what was said before is left for the next pass, and holds up no other.
func (r *Review) admit(ctx context.Context, p *reviewPass) error {
	var known []review.Pull
	for _, pull := range p.pulls {
		err := r.admitOne(ctx, p, pull)
		if err == nil {
			known = append(known, pull)
			continue
		}
		p.fail(err)
		if p.unread++; p.unread == maxUnread {
			return err
		}
	}
	p.pulls = known
	return nil
}

// admitOne decides on one. What was said before about a commit that this process does not know stands on the commit.
func (r *Review) admitOne(ctx context.Context, p *reviewPass, pull review.Pull) error {
	m := p.memory.pull(pull.Number)
	if m.head != pull.Head {
		shown, err := r.shown(ctx, p, pull)
		if err != nil {
			return err
		}
		m.see(pull.Head, shown)
	}
	m.review.Context, m.review.Path, m.review.Number, m.review.Commit = report.ContextOf(p.fleet), p.fleet.Spec.Path, pull.Number, pull.Head
	admission := review.Admit(pull, p.fleet.Spec.Checks.PullRequests.Forks, m.seen)
	if m.review.Admission != admission {
		m.review.Admission, m.published = admission, false
		r.Metrics.notAdmitted(admission)
	}
	m.seen = admission
	return nil
}

// shown is what the forge shows of a commit: in its status, or where none is written, in the comment.
func (r *Review) shown(ctx context.Context, p *reviewPass, pull review.Pull) (review.Admission, error) {
	checks := p.fleet.Spec.Checks.PullRequests
	if checks.Plan {
		status, err := p.forge.Shown(ctx, pull.Head)
		if err != nil {
			return "", fmt.Errorf("read status of pull request %d: %w", pull.Number, err)
		}
		if seen := report.AdmissionShown(status, pull.Number); seen != "" {
			return seen, nil
		}
	}
	if !checks.Comment {
		return "", nil
	}
	own, err := p.forge.Comments(ctx, pull.Number)
	if err != nil {
		return "", fmt.Errorf("read comments of pull request %d: %w", pull.Number, err)
	}
	return review.Seen(own, report.ContextOf(p.fleet), pull.Head), nil
}

// stumble is for trouble that is no pull request's own: those that have no plan yet say so.
func (r *Review) stumble(p *reviewPass, err error) {
	for _, pull := range p.pulls {
		m := p.memory.pull(pull.Number)
		if m.review.Admission == review.Planned && !m.hasVerdict() {
			m.review.Trouble, m.published = err.Error(), false
		}
	}
}

// tell says what did not work, once as long as it is the same.
func (r *Review) tell(ctx context.Context, p *reviewPass) {
	text := ""
	if p.trouble != nil {
		text = p.trouble.Error()
		log.FromContext(ctx).Info("pull requests are not all reviewed", "problem", text)
	}
	if text != "" && text != p.memory.told {
		r.Events.Eventf(p.fleet, nil, corev1.EventTypeWarning, report.EventReviewFailed, report.ActionReview, "%s", report.Cut(text, maxNote))
	}
	p.memory.told = text
}

func (r *Review) forget(request ctrl.Request, why string) {
	r.memory.forget(request.NamespacedName)
	r.Forges.Forget(request.NamespacedName, why)
}

// publish writes what is not written yet: statuses first, as the comment may take several calls.
func (r *Review) publish(ctx context.Context, p *reviewPass) {
	if err := r.publishStatuses(ctx, p); err != nil {
		p.fail(err)
	}
	for _, pull := range p.pulls {
		m := p.memory.pull(pull.Number)
		if m.published || ctx.Err() != nil {
			continue
		}
		if err := r.publishPull(ctx, p, pull); err != nil {
			p.fail(fmt.Errorf("pull request %d: %w", pull.Number, err))
			continue
		}
		m.published = m.review.Trouble == "" && (m.review.Admission != review.Planned || m.hasVerdict())
	}
}

// publishStatuses wants all statuses as a whole: of every head what it is, and of what is no head any more an end.
func (r *Review) publishStatuses(ctx context.Context, p *reviewPass) error {
	if !p.fleet.Spec.Checks.PullRequests.Plan {
		return nil
	}
	wanted := map[string]report.CommitStatus{}
	for head, m := range p.speakers() {
		if status := m.review.Status(); status.State.Final() || m.planning {
			wanted[head] = status
		}
	}
	for commit, was := range p.memory.wanted {
		if _, is := wanted[commit]; !is && !was.State.Final() {
			was.State, was.Description = report.CommitError, "not the newest commit of an open pull request any more"
			wanted[commit] = was
		}
	}
	var all []report.CommitStatus
	for _, commit := range slices.Sorted(maps.Keys(wanted)) {
		all = append(all, wanted[commit])
	}
	p.memory.wanted = wanted
	return p.forge.Want(ctx, all)
}

// speakers are the pull requests by head. Of several with one commit, of which the forge shows one status, the first that is planned speaks: whoever
// opens another one takes nothing away.
func (p *reviewPass) speakers() map[string]*pullReview {
	out := map[string]*pullReview{}
	for _, pull := range p.pulls {
		m, had := p.memory.pull(pull.Number), out[pull.Head]
		if had == nil || had.review.Admission != review.Planned && m.review.Admission == review.Planned {
			out[pull.Head] = m
		}
	}
	return out
}

// publishPull brings the comment up to date, and the findings at their lines.
func (r *Review) publishPull(ctx context.Context, p *reviewPass, pull review.Pull) error {
	m := p.memory.pull(pull.Number)
	if p.fleet.Spec.Checks.PullRequests.Comment {
		if err := r.comment(ctx, p, pull); err != nil {
			return err
		}
	}
	if m.review.Plan == nil || m.review.Admission != review.Planned {
		return nil
	}
	digest := digestOf(m.review.Plan.Findings)
	if digest == m.annotated {
		return nil
	}
	m.annotated = digest // the comment has them all: what a forge refuses is not tried again
	if err := p.forge.Annotate(ctx, pull, m.review.Plan.Findings); err != nil {
		p.fail(fmt.Errorf("pull request %d: annotate: %w", pull.Number, err))
	}
	return nil
}

// comment asks the forge no more often than plans are refreshed, unless there is something else to say: of many pull requests each
// change of the cluster makes new plans that say the same.
func (r *Review) comment(ctx context.Context, p *reviewPass, pull review.Pull) error {
	m := p.memory.pull(pull.Number)
	text := m.review.Comment(p.forge.CommentLimit())
	mark, _ := review.MarkOf(text)
	if text == "" || mark == m.commented && p.now.Sub(m.commentedAt) < cmp.Or(r.Refresh, DefaultRefresh) {
		return nil
	}
	own, err := p.forge.Comments(ctx, pull.Number)
	if err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	if edits := review.Sync(own, report.ContextOf(p.fleet), []string{text}); !edits.None() {
		if err := p.forge.Edit(ctx, pull.Number, edits); err != nil {
			return fmt.Errorf("write comment: %w", err)
		}
	}
	m.commented, m.commentedAt = mark, p.now
	return nil
}
