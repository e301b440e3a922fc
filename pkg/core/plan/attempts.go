package plan

import (
	"fmt"
	"time"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/noderecord"
)

const (
	// messageLimit bounds what a record keeps of a failed execution's last lines, in characters.
	messageLimit = 256
	// longestShift bounds how often the wait before the next attempt doubles.
	longestShift = 10
	// maxSetbacks is how many attempts in a row may end without counting before the node fails: with the default back-off,
	// after about an hour. A package that takes its host down each time would otherwise do so for ever.
	maxSetbacks = 10
	// maxSetbackWait bounds the wait after an attempt that did not count, unless Settings.RetryBackoff is longer.
	maxSetbackWait = 10 * time.Minute
)

// recordFailure records an attempt that ended without success. Stages that succeeded in it are not run again. What is no
// fault of the package does not count; see docs/operations.md for the table.
func (t *turn) recordFailure(name string, pkg noderecord.Package, e Execution) {
	if e.Phase == PhaseCheck {
		t.checkFailed(name, pkg, e)
		return
	}
	if installed(e) {
		pkg = applied(pkg)
	}
	pkg.Running = ""
	if e.Disrupted {
		t.recordSetback(name, pkg, e)
		return
	}
	pkg.Failures++
	pkg.Setback, pkg.State = nil, nwv1.StateErroring
	if e.Stage != "" {
		pkg.Stage = e.Stage
	}
	t.noteFailure(failureOf(name, e))
	t.noteRetries()
	pkg.NotBefore = t.after(t.p.in.Settings.RetryBackoff << min(pkg.Failures-1, longestShift))
	t.put(name, pkg)
}

// recordSetback has the attempt made again, later each time. Too many in a row are a failure.
func (t *turn) recordSetback(name string, pkg noderecord.Package, e Execution) {
	pkg.Setback = setback(pkg.Setback, e)
	pkg.NotBefore = t.after(t.setbackWait(pkg.Setback))
	t.put(name, pkg)
	if pkg.Setback.Count < maxSetbacks {
		return
	}
	pkg.State = nwv1.StateErroring
	t.put(name, pkg)
	t.noteFailure(setbackFailure(name, e.Stage, pkg.Setback))
}

// setback is what the record says of an attempt that did not count, after those before it.
func setback(before *noderecord.Setback, e Execution) *noderecord.Setback {
	s := noderecord.Setback{Reason: string(Disrupted), Message: tail(e.Message), Count: 1}
	if e.Cause != "" {
		s.Reason = string(e.Cause)
	}
	if before != nil {
		s.Count += before.Count
	}
	return &s
}

func (t *turn) setbackWait(s *noderecord.Setback) time.Duration {
	first := t.p.in.Settings.RetryBackoff
	return max(first, min(first<<min(s.Count-1, longestShift), maxSetbackWait))
}

func setbackFailure(name string, stage nwv1.Stage, s *noderecord.Setback) noderecord.Failure {
	return noderecord.Failure{
		Package: name, Stage: stage, Reason: s.Reason, Message: tail(fmt.Sprintf("%d attempts in a row: %s", s.Count, s.Message)),
	}
}

// setbackSentence says why the newest attempt did not count, and when the next one is due.
func setbackSentence(s *noderecord.Setback, next time.Time) string {
	said := s.Message
	if said == "" {
		said = "the attempt did not come to its end"
	}
	return fmt.Sprintf("%s (%d of %d in a row); the next attempt is due at %s", said, s.Count, maxSetbacks, next.UTC().Format(time.RFC3339))
}

func (t *turn) after(wait time.Duration) *time.Time {
	at := t.p.in.Now.Add(wait)
	return &at
}

func failureOf(name string, e Execution) noderecord.Failure {
	f := noderecord.Failure{
		Package: name, Stage: e.Stage, ExitCode: e.ExitCode, Reason: string(PackageFailed), Message: tail(e.Message),
	}
	switch {
	case e.TimedOut:
		f.Reason = string(StageTimeout)
	case e.Cause != "":
		f.Reason = string(e.Cause)
	}
	return f
}

// noteFailure keeps the first failure of the turn beside the newest: what comes later is often only its consequence.
func (t *turn) noteFailure(f noderecord.Failure) {
	if have := t.rec.Failure; have != nil && *have != f && t.rec.FirstFailure == nil {
		t.rec.FirstFailure = have
	}
	t.rec.Failure = &f
	if first := t.rec.FirstFailure; first != nil && *first == f {
		t.rec.FirstFailure = nil
	}
}

// forgive forgets what a package that has come good failed with. What another one said first is the newest then.
func (t *turn) forgive(name string) {
	if first := t.rec.FirstFailure; first != nil && first.Package == name {
		t.rec.FirstFailure = nil
	}
	if last := t.rec.Failure; last != nil && last.Package == name {
		t.rec.Failure, t.rec.FirstFailure = t.rec.FirstFailure, nil
	}
}

// exhausted reports whether a package has no attempt left.
func (t *turn) exhausted() bool {
	for _, pkg := range t.rec.Packages {
		if pkg.Failures >= t.p.in.Settings.Attempts || pkg.Setback != nil && pkg.Setback.Count >= maxSetbacks {
			return true
		}
	}
	return false
}

// tail keeps the end of a message, which says most, cut at a character.
func tail(s string) string {
	r := []rune(s)
	if len(r) <= messageLimit {
		return s
	}
	return "…" + string(r[len(r)-messageLimit+1:])
}
