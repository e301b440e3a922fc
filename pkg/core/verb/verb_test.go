package verb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/core/verb"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		on          verb.Place
		verb, value string
		want        verb.Request
		err         string
	}{
		"token": {verb.OnNodeWright, "retry", "2026-01-05T09:00:00Z", verb.Request{Verb: "retry", Token: "2026-01-05T09:00:00Z"}, ""},
		"scopes": {verb.OnNodeWright, "rerun", " 7  package=a,b stage=config node=n1 ",
			verb.Request{Verb: "rerun", Token: "7", Packages: []string{"a", "b"}, Stage: "config", Nodes: []string{"n1"}}, ""},
		"on a node":                {verb.OnNode, "reset", "x nodewright=tune", verb.Request{Verb: "reset", Token: "x", NodeWrights: []string{"tune"}}, ""},
		"regate":                   {verb.OnNode, "regate", "x nodewright=tune", verb.Request{Verb: "regate", Token: "x", NodeWrights: []string{"tune"}}, ""},
		"regate takes no packages": {verb.OnNode, "regate", "x package=a", verb.Request{}, `"package=a" is not one of nodewright=…`},
		"regate is for nodes":      {verb.OnNodeWright, "regate", "x", verb.Request{}, "regate is not asked for on a NodeWright"},
		"empty": {verb.OnNode, "reset", "", verb.Request{},
			`a value begins with a token of up to 63 letters, digits and . _ : + -, not ""`},
		"no token": {verb.OnNode, "reset", "package=a", verb.Request{},
			`a value begins with a token of up to 63 letters, digits and . _ : + -, not "package=a"`},
		"other key":     {verb.OnNode, "retry", "x stage=apply", verb.Request{}, `"stage=apply" is not one of package=…, nodewright=…`},
		"no value":      {verb.OnNode, "retry", "x package=", verb.Request{}, `"package=" is not one of package=…, nodewright=…`},
		"other stage":   {verb.OnNode, "rerun", "x stage=upgrade", verb.Request{}, `stage "upgrade" is not one of apply, config, interrupt, post-interrupt`},
		"bare verb":     {verb.OnNodeWright, "resume", "x node=a", verb.Request{}, `resume takes a token and nothing more, not "node=a"`},
		"not on a node": {verb.OnNode, "resume", "x", verb.Request{}, "resume is not asked for on a Node"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := verb.Parse(c.on, c.verb, c.value)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			again, err := verb.Parse(c.on, c.verb, got.Value())
			require.NoError(t, err)
			require.Equal(t, got, again, "what is written is what is read")
		})
	}
}
