package forge

import "time"

// entry is what the Reporter knows of one (commit, context). All fields are guarded by the Reporter's lock.
type entry struct {
	wanted    Status
	fixedText bool   // the forge keeps the text of a state
	seq       uint64 // when it was wanted, among all entries

	known    bool      // have is what the forge shows
	have     Status    // zero: the forge shows nothing
	postedAt time.Time // zero: not by this process

	notBefore time.Time // back-off or hold
	held      bool      // notBefore comes from a permanent error
	failures  int       // in a row
	failure   string    // text of the last one that was observed

	doubtful time.Time // until then an earlier call may still take effect on the server
	verifyAt time.Time // when to read back; zero: not needed
}

// want replaces the value. A hold ends with a change of state, not of text: a context that fails for good must not be tried at
// the rate of its progress.
func (e *entry) want(s Status, seq uint64) {
	if e.held && e.wanted.State != s.State {
		e.release()
	}
	e.wanted, e.seq = s, seq
}

// release ends a back-off or hold.
func (e *entry) release() { e.notBefore, e.held, e.failures, e.failure = time.Time{}, false, 0, "" }

// hold puts the entry aside after a permanent error.
func (e *entry) hold(until time.Time) { e.notBefore, e.held, e.failures = until, true, 0 }

// differs compares what readers see. Where a forge cannot change the text below a state, the state alone counts: it would
// refuse the call, or add a second row.
func (e *entry) differs() bool {
	if !e.known {
		return true
	}
	return !e.have.Same(e.wanted) && (!e.fixedText || e.have.State != e.wanted.State)
}

// verifying says that nothing is to be posted but the last post is to be read back.
func (e *entry) verifying() bool { return !e.differs() && !e.verifyAt.IsZero() }

// needed says whether a call has to be made, now or later.
func (e *entry) needed() bool { return e.differs() || e.verifying() }

// due is when the next call may be made; the zero time means at once.
func (e *entry) due(interval time.Duration, pacing bool) time.Time {
	at := e.notBefore
	if e.verifying() {
		return latest(at, e.verifyAt)
	}
	textOnly := e.known && e.have.State == e.wanted.State && !e.postedAt.IsZero()
	if pacing && textOnly {
		at = latest(at, e.postedAt.Add(interval))
	}
	return at
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// seen notes what the forge shows. While a call is in doubt, what is there may be overtaken: it is read once more afterwards.
func (e *entry) seen(found Status, now time.Time) {
	e.known, e.have, e.verifyAt = true, found, time.Time{}
	if now.Before(e.doubtful) {
		e.verifyAt = e.doubtful
	}
	if !e.differs() {
		e.release()
	}
}

// posted notes a successful post. Behind a doubtful call it is read back later, in case the older one arrives after it.
func (e *entry) posted(s Status, now time.Time) {
	e.known, e.have, e.postedAt = true, s, now
	if now.Before(e.doubtful) {
		e.verifyAt = now.Add(verifyDelay)
	}
	e.release()
}

// doubt says that a call which was made before now may take effect until some time later.
func (e *entry) doubt(now time.Time) { e.doubtful = latest(e.doubtful, now.Add(verifyDelay)) }

// lostSight notes a call with an unknown effect: the forge must be read before the next post.
func (e *entry) lostSight(now time.Time) {
	e.known = false
	e.doubt(now)
}

// newFailure says whether the text differs from the last failure that was observed, and remembers it.
func (e *entry) newFailure(text string) bool {
	if e.failure == text {
		return false
	}
	e.failure = text
	return true
}
