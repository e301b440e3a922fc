package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/review"
)

// TestDeliveryReport_PP10_ALabelCountsForTheCommitItWasGivenFor plays looks at a pull request from a fork. What is remembered is only what stands on
// the commit itself: whoever plays may restart between any two looks.
func TestDeliveryReport_PP10_ALabelCountsForTheCommitItWasGivenFor(t *testing.T) {
	type look struct {
		head  string
		label bool
		want  review.Admission
	}
	for name, looks := range map[string][]look{
		"label after the first look":       {{"a", false, review.NeedsLabel}, {"a", true, review.Planned}, {"a", true, review.Planned}},
		"a new push":                       {{"a", false, review.NeedsLabel}, {"a", true, review.Planned}, {"b", true, review.LabelIsOld}, {"b", true, review.LabelIsOld}},
		"the label anew":                   {{"a", true, review.LabelIsOld}, {"a", false, review.NeedsLabel}, {"a", true, review.Planned}},
		"a push right after the label":     {{"a", false, review.NeedsLabel}, {"b", true, review.LabelIsOld}},
		"the label is taken back":          {{"a", false, review.NeedsLabel}, {"a", true, review.Planned}, {"a", false, review.NeedsLabel}},
		"nobody looked before":             {{"a", true, review.LabelIsOld}},
		"back to a commit that was judged": {{"a", false, review.NeedsLabel}, {"a", true, review.Planned}, {"b", true, review.LabelIsOld}, {"a", true, review.Planned}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]review.Admission{}
			for i, l := range looks {
				p := review.Pull{Head: l.head, Fork: true, Labels: []string{"bug"}}
				if l.label {
					p.Labels = append(p.Labels, fleetv1.ForkLabel)
				}
				got := review.Admit(p, fleetv1.ForksLabel, seen[l.head])
				require.Equal(t, l.want, got, "look %d", i+1)
				seen[l.head] = got
			}
		})
	}
}

func TestAdmitByPolicy(t *testing.T) {
	fork := review.Pull{Fork: true, Labels: []string{fleetv1.ForkLabel}}
	require.Equal(t, review.Planned, review.Admit(review.Pull{}, fleetv1.ForksNever, ""), "it is of this repository")
	require.Equal(t, review.Planned, review.Admit(fork, fleetv1.ForksAlways, ""))
	require.Equal(t, review.ForksRefused, review.Admit(fork, fleetv1.ForksNever, review.Planned))
	require.Equal(t, review.LabelIsOld, review.Admit(fork, "", ""), "no policy is the default")
	pulls := review.Trusted([]review.Pull{{Number: 1, Head: "a", Fork: true}, {Number: 2, Head: "a"}, {Number: 3, Head: "b", Fork: true}})
	require.Equal(t, []bool{false, false, true}, []bool{pulls[0].Fork, pulls[1].Fork, pulls[2].Fork})
}

func TestDeliveryReport_PP09_TheMergeTakesEachFileFromTheSideThatChangedIt(t *testing.T) {
	old := review.Listing{"same": "1", "ours": "1", "theirs": "1", "both": "1", "alike": "1", "removed": "1", "removed-there": "1", "removed-changed": "1"}
	branch := review.Listing{"same": "1", "ours": "1", "theirs": "2", "both": "2", "alike": "2", "removed": "1", "removed-changed": "2", "new-there": "1"}
	head := review.Listing{"same": "1", "ours": "2", "theirs": "1", "both": "3", "alike": "2", "removed-there": "1", "new": "1"}
	m := review.MergeFiles(branch, head, old)
	require.Equal(t, map[string]bool{"ours": true, "both": true, "new": true}, m.FromHead)
	require.Equal(t, map[string]bool{"removed": true, "removed-changed": true}, m.Gone)
	require.Equal(t, []string{"both", "removed-changed"}, m.Both)
	require.Equal(t, []string{"both"}, m.BothOf([]string{"ours", "both", "same"}))

	blind := review.MergeFiles(branch, head, nil)
	require.Empty(t, blind.Both)
	require.True(t, blind.FromHead["theirs"], "without a merge base the head is what it is")
	require.True(t, blind.Gone["new-there"])
}

// TestMergeIsSymmetric: where no file is changed on both sides, it does not matter who merges into whom.
func TestMergeIsSymmetric(t *testing.T) {
	listing := rapid.Custom(func(t *rapid.T) review.Listing {
		out := review.Listing{}
		for _, path := range []string{"a", "b", "c"} {
			if v := rapid.IntRange(0, 3).Draw(t, path); v > 0 {
				out[path] = fmt.Sprint(v)
			}
		}
		return out
	})
	result := func(into, from review.Listing, m review.Merge) review.Listing {
		out := review.Listing{}
		for path, hash := range into {
			if !m.Gone[path] {
				out[path] = hash
			}
		}
		for path := range m.FromHead {
			out[path] = from[path]
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		old, a, b := listing.Draw(t, "old"), listing.Draw(t, "a"), listing.Draw(t, "b")
		ab, ba := review.MergeFiles(a, b, old), review.MergeFiles(b, a, old)
		require.Equal(t, ab.Both, ba.Both)
		if len(ab.Both) == 0 {
			require.Equal(t, result(a, b, ab), result(b, a, ba))
		}
	})
}

func body(context string, part int, digest string) string {
	return fmt.Sprintf("text %d", part) + review.Mark{Context: context, Part: part, Commit: "abc", Admission: review.Planned, Digest: digest}.String()
}

func comments(bodies ...string) []review.Comment {
	var out []review.Comment
	for i, b := range bodies {
		out = append(out, review.Comment{ID: fmt.Sprint(i + 1), Body: b})
	}
	return out
}

func ids(all []review.Comment) string {
	var out []string
	for _, c := range all {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

// TestDeliveryReport_PP03_StalePartsGo: five parts, then two: three go, and what is the same is not touched.
func TestDeliveryReport_PP03_StalePartsGo(t *testing.T) {
	own := comments(body("us", 1, "a"), body("us", 2, "a"), body("eu", 1, "a"), body("us", 3, "a"), body("us", 4, "a"), body("us", 5, "a"), "a note by hand")
	edits := review.Sync(own, "us", []string{body("us", 1, "a"), body("us", 2, "b")})
	require.Empty(t, edits.Add)
	require.Equal(t, "2", ids(edits.Edit), "the first part says the same")
	require.Equal(t, "4 5 6", ids(edits.Delete))
	require.True(t, review.Sync(own[:3], "us", []string{body("us", 1, "a"), body("us", 2, "a")}).None())
	require.Len(t, review.Sync(own[2:3], "us", []string{body("us", 1, "a")}).Add, 1, "that of another Fleet is not ours")
	require.Equal(t, "1", ids(review.Sync(comments(body("us", 1, "a"), body("us", 1, "a")), "us", []string{body("us", 1, "a")}).Delete),
		"a process that died between writing and noting it wrote twice")
}

func TestMarkIsReadBackAndCannotBePretended(t *testing.T) {
	mark := review.Mark{Context: `a "b" --> c%20/é`, Part: 2, Commit: "abc", Admission: review.NeedsLabel, Digest: "0f"}
	got, ok := review.MarkOf("text" + mark.String())
	require.True(t, ok)
	require.Equal(t, mark, got)
	require.NotContains(t, mark.String(), "-->")
	got, ok = review.MarkOf(strings.ReplaceAll("text"+mark.String()+"\n", "\n", "\r\n"))
	require.True(t, ok, "a forge may store other line ends")
	require.Equal(t, mark, got)
	for _, text := range []string{"", "text", "text" + mark.String() + "more", strings.Replace(mark.String(), " 2 ", " x ", 1), "x" + strings.TrimSpace(mark.String())} {
		_, ok := review.MarkOf(text)
		require.False(t, ok, text)
	}
	require.Equal(t, review.NeedsLabel, review.Seen(comments("x", "text"+mark.String()), mark.Context, "abc"))
	require.Empty(t, review.Seen(comments("text"+mark.String()), mark.Context, "abd"))
}
