package forgetest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

var kinds = []forge.Kind{
	forge.KindGitHub, forge.KindGitLab, forge.KindGitea, forge.KindBitbucketCloud, forge.KindBitbucketDataCenter, forge.KindAzureDevOps,
}

// heads are the refs of pull requests by kind; of those from forks where they differ.
var heads = map[forge.Kind][2]string{
	forge.KindGitHub: {"refs/pull/%d/head", "refs/pull/%d/head"}, forge.KindGitea: {"refs/pull/%d/head", "refs/pull/%d/head"},
	forge.KindGitLab:              {"refs/merge-requests/%d/head", "refs/merge-requests/%d/head"},
	forge.KindBitbucketDataCenter: {"refs/pull-requests/%d/from", "refs/pull-requests/%d/from"},
	forge.KindBitbucketCloud:      {"refs/heads/topic-%d", ""}, forge.KindAzureDevOps: {"refs/heads/topic-%d", ""},
}

var successes = map[forge.Kind]string{
	forge.KindGitHub: "success", forge.KindGitea: "success", forge.KindGitLab: "success", forge.KindAzureDevOps: "succeeded",
	forge.KindBitbucketCloud: "SUCCESSFUL", forge.KindBitbucketDataCenter: "SUCCESSFUL",
}

func hasLabels(kind forge.Kind) bool {
	return kind != forge.KindBitbucketCloud && kind != forge.KindBitbucketDataCenter
}

func subject(s *forgetest.Server, kind forge.Kind, p forge.Provider) forgetest.Subject {
	return forgetest.Subject{
		Provider: p, Commit: func(*testing.T) string { return s.AddCommit() },
		Foreign: func(_ *testing.T, commit, context string) {
			name := context
			if kind == forge.KindAzureDevOps {
				name = "ci|build"
			}
			s.AddRow(forgetest.Row{Commit: commit, Context: name, State: successes[kind]})
		},
		Pull: func(_ *testing.T, base string, fork bool) forge.PullRequest {
			in := forgetest.Pull{Base: base, Fork: fork}
			if hasLabels(kind) {
				in.Labels = []string{"safe-to-plan"}
			}
			made := s.AddPull(in)
			ref := heads[kind][0]
			if fork {
				ref = heads[kind][1]
			}
			if ref != "" {
				ref = fmt.Sprintf(ref, made.Number)
			}
			return forge.PullRequest{
				Number: made.Number, Title: made.Title, Head: made.Head, HeadRef: ref, HeadBranch: made.Branch, Base: base, Fork: fork, Labels: in.Labels,
			}
		},
		Remark: func(_ *testing.T, number int64, body string) { s.AddComment(number, forgetest.Stranger, body) },
	}
}

func TestContract(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			server := forgetest.NewServer(t, kind)
			provider, err := forge.New(kind, server.Config())
			require.NoError(t, err)
			forgetest.Contract(t, subject(server, kind, provider))
		})
	}
	t.Run("github app", func(t *testing.T) {
		server := forgetest.NewServer(t, forge.KindGitHub)
		cfg := server.Config()
		cfg.Credential.AppID = forgetest.AppID
		provider, err := forge.New(forge.KindGitHub, cfg)
		require.NoError(t, err)
		forgetest.Contract(t, subject(server, forge.KindGitHub, provider))
	})
}
