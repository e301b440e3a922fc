package window_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/pkg/core/window"
)

func at(t require.TestingT, s string) time.Time {
	out, err := time.Parse(time.RFC3339, s)
	require.NoError(t, err)
	return out
}

func parse(t require.TestingT, fields, duration, zone string) window.Window {
	d, err := time.ParseDuration(duration)
	require.NoError(t, err)
	w, err := window.Parse(fields, d, zone)
	require.NoError(t, err)
	return w
}

func TestWindowsOpenAndClose(t *testing.T) {
	for _, tc := range []struct {
		name, fields, duration, zone, now string
		open                              bool
		change                            string
	}{
		{"before", "0 2 * * *", "4h", "", "2026-06-01T01:59:59Z", false, "2026-06-01T02:00:00Z"},
		{"the first instant", "0 2 * * *", "4h", "", "2026-06-01T02:00:00Z", true, "2026-06-01T06:00:00Z"},
		{"the last instant", "0 2 * * *", "4h", "", "2026-06-01T05:59:59Z", true, "2026-06-01T06:00:00Z"},
		{"after", "0 2 * * *", "4h", "", "2026-06-01T06:00:00Z", false, "2026-06-02T02:00:00Z"},
		{"over midnight", "0 22 * * 5", "8h", "", "2026-06-06T03:00:00Z", true, "2026-06-06T06:00:00Z"},
		{"openings that overlap", "0 * * * *", "90m", "", "2026-06-01T10:20:00Z", true, "2026-06-01T11:30:00Z"},
		{"longer than a week", "0 0 1 * *", "240h", "", "2026-06-10T12:00:00Z", true, "2026-06-11T00:00:00Z"},
		{"summer time in Berlin", "0 2 * * *", "1h", "Europe/Berlin", "2026-07-01T00:00:00Z", true, "2026-07-01T01:00:00Z"},
		{"winter time in Berlin", "0 2 * * *", "1h", "Europe/Berlin", "2026-12-01T01:00:00Z", true, "2026-12-01T02:00:00Z"},
		{"an hour that is skipped opens when the clocks jump", "30 2 * * *", "1h", "Europe/Berlin",
			"2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
		{"and stays open for its time", "30 2 * * *", "1h", "Europe/Berlin", "2026-03-29T01:59:59Z", true, "2026-03-29T02:00:00Z"},
		{"an hour that comes twice opens the first time", "30 2 * * *", "10m", "Europe/Berlin",
			"2026-10-25T00:30:00Z", true, "2026-10-25T00:40:00Z"},
		{"and not the second", "30 2 * * *", "10m", "Europe/Berlin", "2026-10-25T01:30:00Z", false, "2026-10-26T01:30:00Z"},
		{"a window over the jump back is as long as it says", "0 1 * * *", "3h", "Europe/Berlin",
			"2026-10-25T01:59:59Z", true, "2026-10-25T02:00:00Z"},
		{"a jump of half an hour", "15 2 * * *", "1h", "Australia/Lord_Howe", "2026-10-03T15:29:00Z", false, "2026-10-03T15:30:00Z"},
		{"west of Greenwich", "30 1 * * *", "1h", "America/New_York", "2026-11-01T05:30:00Z", true, "2026-11-01T06:30:00Z"},
		{"every minute, for a year", "* * * * *", "8760h", "", "2026-06-01T10:20:30Z", true, "2027-06-01T10:20:00Z"},
		{"every minute of one hour in a year", "* 2 1 1 *", "8760h", "", "2026-06-01T10:20:30Z", true, "2027-01-01T02:59:00Z"},
		{"for longer than anybody lives", "0 0 1 * *", "2500000h", "", "2026-06-01T10:20:30Z", true, "2311-08-13T16:00:00Z"},
		{"a leap day", "0 0 29 2 *", "24h", "", "2026-06-01T00:00:00Z", false, "2028-02-29T00:00:00Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			open, change := parse(t, tc.fields, tc.duration, tc.zone).At(at(t, tc.now))
			require.Equal(t, tc.open, open)
			require.Equal(t, tc.change, change.UTC().Format(time.RFC3339))
		})
	}
}

func TestSetsAreOpenWhileOneIs(t *testing.T) {
	set := window.Set{parse(t, "0 2 * * 1-5", "2h", ""), parse(t, "0 3 * * *", "4h", "")}
	for _, tc := range []struct {
		now    string
		open   bool
		change string
	}{
		{"2026-06-01T01:00:00Z", false, "2026-06-01T02:00:00Z"},
		{"2026-06-01T02:30:00Z", true, "2026-06-01T04:00:00Z"},
		{"2026-06-01T03:30:00Z", true, "2026-06-01T07:00:00Z"},
		{"2026-06-01T07:00:00Z", false, "2026-06-02T02:00:00Z"},
		{"2026-06-06T02:30:00Z", false, "2026-06-06T03:00:00Z"},
	} {
		open, change := set.At(at(t, tc.now))
		require.Equal(t, tc.open, open, tc.now)
		require.Equal(t, tc.change, change.UTC().Format(time.RFC3339), tc.now)
	}
	open, change := window.Set{}.At(at(t, "2026-06-01T01:00:00Z"))
	require.True(t, open)
	require.Zero(t, change)
}

func TestWindowsThatCannotBe(t *testing.T) {
	for _, tc := range []struct {
		fields   string
		duration time.Duration
		zone     string
		message  string
	}{
		{"0 2 * *", time.Hour, "", `"0 2 * *" is not minute, hour, day of month, month, day of week: expected exactly 5 fields, found 4: [0 2 * *]`},
		{"0 25 * * *", time.Hour, "", `"0 25 * * *" is not minute, hour, day of month, month, day of week: end of range (25) above maximum (23): 25`},
		{"@daily", time.Hour, "", `"@daily" is not minute, hour, day of month, month, day of week: parser does not accept descriptors: @daily`},
		{"CRON_TZ=UTC 0 2 * * *", time.Hour, "", "the schedule names a time zone; write it in the field timeZone"},
		{"0 2 * * *", 0, "", "the window is open for 0s; it must be more than zero"},
		{"0 2 * * *", time.Hour, "Berlin", `"Berlin" is not a name of the tz database, as Europe/Berlin or UTC`},
		{"0 2 * * *", time.Hour, "Local", `"Local" means another zone on each machine; write a name of the tz database, as Europe/Berlin`},
		{"0 0 30 2 *", time.Hour, "", `"0 0 30 2 *" never comes`},
	} {
		_, err := window.Parse(tc.fields, tc.duration, tc.zone)
		require.EqualError(t, err, tc.message)
	}
}

// The change that At names is the first one: nothing is different a moment before it, also over the jumps of clocks.
func TestNothingChangesBeforeTheChange(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata"}
	rapid.Check(t, func(t *rapid.T) {
		w := parse(t,
			rapid.SampledFrom([]string{"30 2 * * *", "0 1 * * 0", "15 */3 * * *", "0 0 1 * *", "59 23 * * 6"}).Draw(t, "fields"),
			rapid.SampledFrom([]string{"1m", "45m", "2h", "26h"}).Draw(t, "duration"), rapid.SampledFrom(zones).Draw(t, "zone"))
		now := time.Unix(rapid.Int64Range(1262304000, 1924992000).Draw(t, "now"), 0)
		open, change := w.At(now)
		require.True(t, change.After(now))
		between := now.Add(time.Duration(rapid.Int64Range(0, int64(change.Sub(now))-1).Draw(t, "later")))
		still, _ := w.At(between)
		require.Equal(t, open, still, "at %s, between %s and %s", between, now, change)
		if !open {
			then, _ := w.At(change)
			require.True(t, then)
		}
	})
}
