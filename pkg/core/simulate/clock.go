package simulate

import (
	"container/heap"
	"time"
)

// event is something that happens in the imagined cluster.
type event struct {
	at time.Time
	// order in which events of the same instant happen: that in which they were planned.
	order int
	do    func()
}

// clock is the virtual time with what is going to happen.
type clock struct {
	now    time.Time
	queue  queue
	issued int
}

// after plans an event.
func (c *clock) after(d time.Duration, do func()) {
	c.issued++
	heap.Push(&c.queue, event{at: c.now.Add(d), order: c.issued, do: do})
}

// next is the instant of the next event, or of wake if that is earlier; zero if there is neither.
func (c *clock) next(wake time.Time) time.Time {
	if len(c.queue) == 0 {
		return wake
	}
	if at := c.queue[0].at; wake.IsZero() || at.Before(wake) {
		return at
	}
	return wake
}

// advance moves to an instant and lets everything happen that is due by then. It reports whether anything did.
func (c *clock) advance(to time.Time) bool {
	c.now = to
	happened := false
	for len(c.queue) > 0 && !c.queue[0].at.After(to) {
		e, _ := heap.Pop(&c.queue).(event)
		e.do()
		happened = true
	}
	return happened
}

// queue is a heap of events, the next one first.
type queue []event

// Len is the number of events.
func (q queue) Len() int { return len(q) }

// Less orders by time, then by the order of planning.
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}

// Swap swaps two events.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push appends an event, for container/heap.
func (q *queue) Push(x any) {
	e, _ := x.(event)
	*q = append(*q, e)
}

// Pop takes the last event away, for container/heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}
