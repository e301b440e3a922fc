package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/report"
)

// Defaults of Delivery and of Fleets that did not pass through an API server.
const (
	DefaultRetryBase = 5 * time.Second
	defaultInterval  = time.Minute
	defaultTimeout   = time.Minute
)

// Delivery brings what a Fleet's repository says into the cluster and reports how it goes: git → build → validate → apply →
// conditions, events, commit statuses. It knows no node; whether a revision is rolled out it reads from the NodeWrights.
type Delivery struct {
	// Client writes Fleets. Required.
	Client client.Client
	// Reader reads the API server itself: a decision about success must not be made from a cache. Required.
	Reader client.Reader
	// Source, Renderer, Applier, Shown and Statuses are the outside world. Required.
	Source   Source
	Renderer Renderer
	Applier  Applier
	Shown    ShownStatuses
	Statuses CommitStatuses
	// Events goes to people. Required.
	Events events.EventRecorder
	// Metrics counts. Required.
	Metrics *DeliveryMetrics
	// Now and Random (0 to 1, for the spread of retries) are the clock and chance. Required.
	Now    func() time.Time
	Random func() float64
	// RetryBase is the wait before the first retry. Default DefaultRetryBase.
	RetryBase time.Duration

	memory deliveryMemory
	hosts  hostGate
}

// deliveryPass is one look at one Fleet.
type deliveryPass struct {
	fleet  *fleetv1.Fleet // as it will be written
	before *fleetv1.Fleet // as it was last read or written
	memory *fleetMemory
	now    time.Time

	was      *report.Failure   // what the last report said
	wasReady *metav1.Condition // its condition Ready

	requested bool   // the annotation asks for a look
	pushed    string // what a webhook wrote, which asks for a look at the refs; empty: nothing new
	looked    bool   // the repository was asked, or the Fleet refused without asking
	waiting   bool   // other Fleets are asking the repository's host; this one has to come back
	drift     bool   // only delivered objects are to be checked
	revision  Revision
	tree      Tree
	rendered  *rendering
	fresh     bool      // rendered was made in this pass
	again     time.Time // when time alone promotes the revision; zero: never
	leave     func()    // the host, if the pass has entered it
}

// deliveryStep ends the pass by returning stop or an error. A *report.Failure is an outcome to report; any other error is a
// surprise, and the pass is run again.
type deliveryStep struct {
	name string
	run  func(context.Context, *deliveryPass) (verdict, error)
}

type verdict bool

const (
	goOn verdict = false
	stop verdict = true
)

// steps is the way of a commit, from top to bottom.
func (r *Delivery) steps() []deliveryStep {
	return []deliveryStep{
		{"check suspension", r.stopIfSuspended},
		{"check schedule", r.stopUnlessDue},
		{"check support", r.refuseUnsupported},
		{"check promotion", r.refusePromotion},
		{"resolve", r.resolve},
		{"announce", r.announce},
		{"fetch", r.fetch},
		{"build and validate", r.render},
		{"judge", r.judge},
		{"promote", r.promote},
		{"apply", r.apply},
		{"prune", r.prune},
	}
}

// Reconcile looks at one Fleet: deliver what is due, then report, whatever came of it.
func (r *Delivery) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	fleet := &fleetv1.Fleet{}
	if err := r.Reader.Get(ctx, request.NamespacedName, fleet); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(request)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("read fleet: %w", err)
	}
	if !fleet.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finalize(ctx, fleet)
	}
	if err := r.syncFinalizer(ctx, fleet); err != nil {
		return ctrl.Result{}, err
	}
	ctx, done := r.memory.interruptible(ctx, fleet)
	defer done()
	p := r.begin(fleet)
	if err := orInterrupted(ctx, r.pass(ctx, p)); err != nil {
		// What was begun is not known to be done: a new generation may be announced already, and an apply not noted yet.
		p.memory.next = time.Time{}
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.wait(p)}, nil
}

func (r *Delivery) pass(ctx context.Context, p *deliveryPass) error {
	failure, err := r.run(ctx, p)
	if err != nil {
		return err
	}
	r.remember(p, failure)
	return r.report(ctx, p)
}

// raced marks an error that means that the Fleet changed, or went, since it was read.
func raced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return &lostRace{err}
	}
	return err
}

// lostRace is no failure: the next pass reads the Fleet anew.
type lostRace struct{ err error }

func (e *lostRace) Error() string { return "the fleet changed meanwhile: " + e.err.Error() }
func (e *lostRace) Unwrap() error { return e.err }

// raceDelay is the pause before a pass that lost a race is run again.
const raceDelay = 100 * time.Millisecond

func isLostRace(err error) bool {
	var race *lostRace
	return errors.As(err, &race)
}

func (r *Delivery) begin(fleet *fleetv1.Fleet) *deliveryPass {
	if r.memory.isOther(fleet) {
		r.forget(ctrl.Request{NamespacedName: keyOf(fleet)})
	}
	memory := r.memory.of(fleet)
	pushed := fleet.Annotations[fleetv1.PushedAtAnnotation]
	if pushed == memory.pushed {
		pushed = ""
	}
	token := fleet.Annotations[fleetv1.RequestedAtAnnotation]
	return &deliveryPass{
		fleet: fleet, before: fleet.DeepCopy(), memory: memory, now: r.Now(), drift: r.memory.takeDrift(memory), leave: func() {},
		requested: token != "" && token != fleet.Status.LastHandledReconcileAt,
		pushed:    pushed,
		was:       report.Remembered(fleet.Status),
		wasReady:  meta.FindStatusCondition(fleet.Status.Conditions, readyCondition).DeepCopy(),
	}
}

// run takes the steps; the failure is the outcome of the attempt.
func (r *Delivery) run(ctx context.Context, p *deliveryPass) (*report.Failure, error) {
	defer func() { p.leave() }()
	for _, step := range r.steps() {
		verdict, err := step.run(ctx, p)
		failure, reported := asFailure(err)
		switch {
		case reported:
			p.looked = true
			return failure, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", step.name, err)
		case verdict == stop:
			return p.memory.failure, nil
		}
	}
	if p.drift {
		return p.memory.failure, nil // of a newer revision; the applied one is as it should be
	}
	p.looked = true
	return nil, nil
}

// asFailure cuts the message to what a condition takes, so that a failure is equal to the one that is read back.
func asFailure(err error) (*report.Failure, bool) {
	var failure *report.Failure
	if !errors.As(err, &failure) {
		return nil, false
	}
	cut := *failure
	cut.Message = report.Cut(cut.Message, report.MaxMessage)
	return &cut, true
}

// remember notes the outcome and when to come back.
func (r *Delivery) remember(p *deliveryPass, failure *report.Failure) {
	p.memory.failure = failure
	if !p.looked {
		return
	}
	if p.pushed != "" {
		p.memory.pushed = p.pushed
	}
	interval, now := intervalOf(p.fleet), r.Now() // the pass may have taken long
	p.memory.next = now.Add(interval)
	if failure == nil && !p.again.IsZero() && p.again.Before(p.memory.next) {
		p.memory.next = p.again
	}
	if failure == nil || failure.Stalled {
		p.memory.retries = 0
		return
	}
	p.memory.retries++
	base := r.RetryBase
	if base == 0 {
		base = DefaultRetryBase
	}
	p.memory.next = now.Add(backoff(p.memory.retries, base, interval, r.Random()))
}

func (r *Delivery) wait(p *deliveryPass) time.Duration {
	switch {
	case p.fleet.Spec.Suspend:
		return 0 // the next event comes from a change of the Fleet
	case p.waiting:
		return time.Duration((0.5 + r.Random()) * float64(hostPause))
	}
	return max(p.memory.next.Sub(r.Now()), time.Millisecond)
}

func intervalOf(fleet *fleetv1.Fleet) time.Duration {
	if d := fleet.Spec.Interval.Duration; d > 0 {
		return d
	}
	return defaultInterval
}

func timeoutOf(fleet *fleetv1.Fleet) time.Duration {
	if d := fleet.Spec.Timeout.Duration; d > 0 {
		return d
	}
	return defaultTimeout
}

func (r *Delivery) forget(request ctrl.Request) {
	r.memory.forget(request.NamespacedName)
	r.Statuses.Forget(request.NamespacedName, "the Fleet was deleted before the end")
	r.Metrics.forget(request.NamespacedName)
}
