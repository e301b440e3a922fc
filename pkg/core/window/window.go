package window

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // an image without a tz database has one all the same

	"github.com/robfig/cron/v3"
)

// Window opens again and again, and stays open for a while.
type Window struct {
	schedule cron.Schedule
	duration time.Duration
	zone     *time.Location
}

// margin is more than any clock is ever moved back at once.
const margin = 3 * time.Hour

// Parse reads a window: five cron fields (minute, hour, day of month, month, day of week), how long it stays open, and
// the tz database's name of the zone that the fields are read in (empty: UTC).
func Parse(fields string, duration time.Duration, zone string) (Window, error) {
	if strings.Contains(fields, "TZ=") {
		return Window{}, errors.New("the schedule names a time zone; write it in the field timeZone")
	}
	schedule, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(fields)
	if err != nil {
		return Window{}, fmt.Errorf("%q is not minute, hour, day of month, month, day of week: %w", fields, err)
	}
	if duration <= 0 {
		return Window{}, fmt.Errorf("the window is open for %s; it must be more than zero", duration)
	}
	if zone == "Local" {
		return Window{}, errors.New(`"Local" means another zone on each machine; write a name of the tz database, as Europe/Berlin`)
	}
	location, err := time.LoadLocation(zone)
	if err != nil {
		return Window{}, fmt.Errorf("%q is not a name of the tz database, as Europe/Berlin or UTC", zone)
	}
	w := Window{schedule: schedule, duration: duration, zone: location}
	if schedule.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Window{}, fmt.Errorf("%q never comes", fields)
	}
	return w, nil
}

// At reports whether the window is open, and the next instant at which that may change: the end of the newest opening,
// or the next opening. It is zero for a schedule that does not come again.
func (w Window) At(now time.Time) (open bool, change time.Time) {
	newest, next := w.around(now)
	if end := newest.Add(w.duration); !newest.IsZero() && end.After(now) {
		return true, end
	}
	return false, next
}

// around is the newest opening that is not after an instant, if it is not longer ago than the window stays open, and the
// first one that is after it. It looks back step by step: of a window that opens every minute and stays open for a year
// nobody needs all openings.
func (w Window) around(now time.Time) (newest, next time.Time) {
	for back := min(time.Hour, w.duration); ; back = min(8*min(back, w.duration/8+1), w.duration) {
		newest, next = w.scan(now, now.Add(-back))
		if back == w.duration || newest.After(now.Add(-back)) {
			return newest, next
		}
	}
}

// scan goes through the openings from an instant on, in the order of the wall clock.
func (w Window) scan(now, from time.Time) (newest, next time.Time) {
	for wall := w.wall(from).Add(-margin); ; {
		if wall = w.schedule.Next(wall); wall.IsZero() {
			return newest, next
		}
		opening := w.instant(wall)
		if opening.After(now) {
			return newest, opening
		}
		newest = opening
	}
}

// wall is what the clocks in the zone show, as a time in UTC: the calendar without the jumps.
func (w Window) wall(t time.Time) time.Time {
	t = t.In(w.zone)
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// instant is when the clocks in the zone first show a wall time, or jump over it.
func (w Window) instant(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, w.zone)
	start, end := t.ZoneBounds()
	if shown := w.wall(t); !shown.Equal(wall) { // skipped: Date answered from one side of the jump
		if shown.Before(wall) {
			return end.In(w.zone)
		}
		return start.In(w.zone)
	}
	if start.IsZero() {
		return t
	}
	_, offset := t.Zone()
	_, before := start.Add(-time.Nanosecond).In(w.zone).Zone()
	if earlier := t.Add(-time.Duration(before-offset) * time.Second); earlier.Before(start) && w.wall(earlier).Equal(wall) {
		return earlier
	}
	return t
}

// Set is several windows; it is open while one of them is. An empty set is always open.
type Set []Window

// At is as for one window.
func (s Set) At(now time.Time) (open bool, change time.Time) {
	if len(s) == 0 {
		return true, time.Time{}
	}
	var opens, closes time.Time
	for _, w := range s {
		is, at := w.At(now)
		switch {
		case is && at.After(closes):
			closes = at
		case !is && !at.IsZero() && (opens.IsZero() || at.Before(opens)):
			opens = at
		}
		open = open || is
	}
	if open {
		return true, closes
	}
	return false, opens
}
