// Package window tells whether a maintenance window is open at an instant, and when that changes next.
//
// A schedule is read on the wall clock of its time zone, so that "0 2 * * *" is two o'clock for the people there all year
// round. Each opening that the schedule names happens once: one whose hour is skipped when the clocks go forward happens
// at the moment they do, and of one whose hour comes twice the first counts. How long a window stays open is elapsed time.
package window
