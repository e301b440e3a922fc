package promotion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/promotion"
)

const revision = "main@sha1:1111111111111111111111111111111111111111"

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func gate(context string, soak time.Duration) fleetv1.PromotionGate {
	out := fleetv1.PromotionGate{Context: context}
	if soak > 0 {
		out.Soak = &metav1.Duration{Duration: soak}
	}
	return out
}

func shown(context, state string) promotion.Shown {
	return promotion.Shown{Context: context, State: state}
}

// look is one look at the statuses of the commit, minutes after the start.
type look struct {
	at    time.Duration
	shown []promotion.Shown
	want  string // the sentence; empty: open
	next  time.Duration
}

func TestDecide(t *testing.T) {
	canary := func(state string) []promotion.Shown { return []promotion.Shown{shown("canary", state)} }
	half := []fleetv1.PromotionGate{gate("canary", 30*time.Minute)}
	for name, c := range map[string]struct {
		gates []fleetv1.PromotionGate
		looks []look
	}{
		"no gate": {nil, []look{{want: ""}}},
		"without a soak success is enough": {[]fleetv1.PromotionGate{gate("canary", 0)}, []look{
			{want: "waits for canary: no status yet"},
			{at: time.Minute, shown: canary("pending"), want: "waits for canary: pending"},
			{at: 2*time.Minute + time.Millisecond, shown: canary("success")},
		}},
		"a soak counts from the first success": {half, []look{
			{shown: canary("pending"), want: "waits for canary: pending"},
			{at: time.Minute, shown: canary("success"), want: "waits for canary: success, 0 min of 30 min", next: 31 * time.Minute},
			{at: 13*time.Minute + 59*time.Second, shown: canary("success"), want: "waits for canary: success, 12 min of 30 min", next: 31 * time.Minute},
			{at: 31*time.Minute - time.Nanosecond, shown: canary("success"), want: "waits for canary: success, 27 min of 30 min", next: 31 * time.Minute},
			{at: 31 * time.Minute, shown: canary("success")},
		}},
		"a gate that fails during the soak starts it anew": {half, []look{
			{shown: canary("success"), want: "waits for canary: success, 0 min of 30 min", next: 30 * time.Minute},
			{at: 29 * time.Minute, shown: canary("failure"), want: "held back: canary is failure"},
			{at: 40 * time.Minute, shown: canary("success"), want: "waits for canary: success, 0 min of 30 min", next: 70 * time.Minute},
			{at: 70 * time.Minute, shown: canary("success")},
		}},
		"an error holds back too": {half, []look{{shown: canary("error"), want: "held back: canary is error"}}},
		"all gates": {[]fleetv1.PromotionGate{gate("canary", 30*time.Minute), gate("ci/build", 0), gate("east", time.Hour)}, []look{
			{shown: []promotion.Shown{shown("canary", "success"), shown("other", "failure"), shown("east", "success")},
				want: "waits for canary: success, 0 min of 30 min; ci/build: no status yet; east: success, 0 min of 1 h"},
			{at: 30 * time.Minute, shown: []promotion.Shown{shown("canary", "success"), shown("ci/build", "success"), shown("east", "success")},
				want: "waits for east: success, 30 min of 1 h", next: time.Hour},
			{at: 50 * time.Minute, shown: []promotion.Shown{shown("canary", "failure"), shown("ci/build", "success"), shown("east", "success")},
				want: "held back: canary is failure"},
		}},
		"seconds": {[]fleetv1.PromotionGate{gate("canary", 45*time.Second)}, []look{
			{shown: canary("success"), want: "waits for canary: success, 0 s of 45 s", next: 45 * time.Second},
			{at: 10 * time.Second, shown: canary("success"), want: "waits for canary: success, 9 s of 45 s", next: 45 * time.Second},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var had *fleetv1.PromotionStatus
			for _, l := range c.looks {
				now := start.Add(l.at)
				got := promotion.Decide(promotion.Question{Gates: c.gates, Revision: revision, Shown: l.shown, Had: had, Now: now})
				require.Equal(t, l.want, promotion.Sentence(got.Status, c.gates, now), "at %s", l.at)
				require.Equal(t, l.want == "", got.Open)
				next := time.Time{}
				if l.next > 0 {
					next = start.Add(l.next)
				}
				require.Equal(t, next, got.Next)
				had = got.Status
			}
		})
	}
}

// TestSince: the forge's time counts where it is known, but neither the future nor another revision's success.
func TestSince(t *testing.T) {
	gates := []fleetv1.PromotionGate{gate("canary", 30*time.Minute)}
	since := func(at time.Time, had *fleetv1.PromotionStatus) time.Time {
		got := promotion.Decide(promotion.Question{Gates: gates, Revision: revision, Had: had, Now: start,
			Shown: []promotion.Shown{{Context: "canary", State: "success", At: at}}})
		return got.Status.Gates[0].Since.Time
	}
	remembered := func(revision string, at time.Time) *fleetv1.PromotionStatus {
		return &fleetv1.PromotionStatus{Revision: revision, Gates: []fleetv1.PromotionGateStatus{
			{Context: "canary", State: "success", Since: &metav1.Time{Time: at}}}}
	}
	earlier := start.Add(-time.Hour)
	require.Equal(t, start, since(time.Time{}, nil))
	require.Equal(t, earlier, since(earlier, nil), "it was success before anybody waited for it")
	require.Equal(t, start, since(start.Add(time.Hour), nil), "a forge whose clock is ahead")
	require.Equal(t, earlier, since(start.Add(-time.Minute), remembered(revision, earlier)), "only its words were rewritten")
	require.Equal(t, start, since(time.Time{}, remembered("main@sha1:2222", earlier)), "another revision's success")
	require.Equal(t, start, since(time.Time{}, remembered(revision, start.Add(time.Hour))), "a clock that was set back")
	require.Equal(t, earlier.Add(time.Second), since(earlier.Add(time.Millisecond), nil), "stored in whole seconds, never too early")
}

func TestHeldBack(t *testing.T) {
	require.Empty(t, promotion.HeldBack(nil))
	status := &fleetv1.PromotionStatus{Gates: []fleetv1.PromotionGateStatus{{Context: "a", State: "failure"}, {Context: "b", State: "pending"}, {Context: "c", State: "error"}}}
	require.Equal(t, []string{"a", "c"}, promotion.HeldBack(status))
}

func TestRefusal(t *testing.T) {
	fleet := func(name string, after ...string) promotion.Waiter {
		out := promotion.Waiter{Name: "fw/" + name, Repository: "https://git.example.com/acme/fleet.git", Context: "fleetwright/" + name}
		for _, a := range after {
			out.After = append(out.After, gate("fleetwright/"+a, 0))
		}
		return out
	}
	mute := fleet("mute", "canary")
	mute.Context = ""
	elsewhere := fleet("canary", "eu")
	elsewhere.Repository = "https://git.example.com/acme/other"
	same := fleet("canary", "eu")
	same.Repository = "https://git.example.com/acme/fleet/"
	for name, c := range map[string]struct {
		self   promotion.Waiter
		others []promotion.Waiter
		want   string
	}{
		"no gates":        {fleet("eu"), nil, ""},
		"a chain":         {fleet("eu", "us"), []promotion.Waiter{fleet("us", "canary"), fleet("canary")}, ""},
		"a diamond":       {fleet("d", "b", "c"), []promotion.Waiter{fleet("b", "a"), fleet("c", "a"), fleet("a")}, ""},
		"others' own":     {fleet("eu", "us"), []promotion.Waiter{fleet("us", "canary"), fleet("canary", "us")}, ""},
		"another repo":    {fleet("eu", "canary"), []promotion.Waiter{elsewhere}, ""},
		"nothing to read": {mute, nil, "spec.promotion.after needs spec.checks: without it there is nothing to read statuses from"},
		"itself": {fleet("eu", "us", "eu"), nil,
			`spec.promotion.after[1].context "fleetwright/eu" is the context of this Fleet itself: it would wait for ever`},
		"a circle": {fleet("eu", "us"), []promotion.Waiter{fleet("us", "canary"), fleet("canary", "eu")},
			"spec.promotion.after: Fleets wait for each other in a circle: fw/eu → fw/us → fw/canary → fw/eu"},
		"the same repository spelled otherwise": {fleet("eu", "canary"), []promotion.Waiter{same},
			"spec.promotion.after: Fleets wait for each other in a circle: fw/eu → fw/canary → fw/eu"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, promotion.Refusal(c.self, c.others)) })
	}
}
