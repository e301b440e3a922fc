package forge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var sha = strings.Repeat("ab", 20)

func TestTruncate(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"fits":                    {"abc", 3, "abc"},
		"cut counts the ellipsis": {"abcd", 3, "ab…"},
		"characters, not bytes":   {"ääää", 3, "ää…"},
		"no space before the cut": {"ab cd", 4, "ab…"},
		"no limit":                {"abcd", 0, "abcd"},
		"invalid bytes":           {"a\xffb", 3, "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, Truncate(c.text, c.limit)) })
	}
}

func TestFitMakesOneLine(t *testing.T) {
	got := Capabilities{DescriptionLimit: 140}.Fit(Status{Description: "a\n  b\tc " + strings.Repeat("x", 200)})
	require.Len(t, []rune(got.Description), 140)
	require.True(t, strings.HasPrefix(got.Description, "a b c x"))
}

func TestDeliveryReport_CS09_NoCommitNoCall(t *testing.T) {
	for name, c := range map[string]struct {
		status Status
		want   string
	}{
		"no commit":    {Status{Context: "c", State: Pending}, "check status: no commit: the revision is not known yet"},
		"short commit": {Status{Commit: "abc", Context: "c", State: Pending}, `check status: commit "abc" is not a full hash (allowed: 40 or 64 hexadecimal digits)`},
		"no context":   {Status{Commit: sha, State: Pending}, "check status: no context (allowed: a name such as fleetwright/us-east-1)"},
		"state":        {Status{Commit: sha, Context: "c", State: "done"}, `check status: unknown state "done" (allowed: pending, success, failure, error)`},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.status.Validate()
			require.EqualError(t, err, c.want)
			require.Equal(t, Permanent, ClassOf(err))
		})
	}
	require.NoError(t, Status{Commit: sha, Context: "c", State: Error}.Validate())
}

func TestRedactorRemovesSecretsInEveryForm(t *testing.T) {
	r := redactor{"p/w+1", ""}
	require.Equal(t, "Get https://host/x: *** and *** and ***", r.text("Get https://me:p%2Fw+1@host/x: p/w+1 and p%2Fw%2B1 and\n p%2Fw+1"))
}
