package forge_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

func provider(t *testing.T, kind forge.Kind, s *forgetest.Server, edit ...func(*forge.Config)) forge.Provider {
	cfg := s.Config()
	cfg.Pause = func(context.Context, time.Duration) {}
	for _, e := range edit {
		e(&cfg)
	}
	p, err := forge.New(kind, cfg)
	require.NoError(t, err)
	return p
}

// said collects what a Reporter tells of.
type said struct {
	mu    sync.Mutex
	texts []string
}

func (s *said) observe(_ forge.Status, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.texts = append(s.texts, "posted")
		return
	}
	s.texts = append(s.texts, err.Error())
}

func (s *said) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.texts...)
}

// reporter runs until stop is called; it also ends with the test.
func reporter(t *testing.T, p forge.Provider, heard *said) (r *forge.Reporter, stop func()) {
	options := forge.ReporterOptions{MinInterval: time.Nanosecond, BackoffBase: time.Millisecond, BackoffMax: time.Millisecond}
	if heard != nil {
		options.Observe = heard.observe
	}
	r = forge.NewReporter(p, options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.Run(ctx) }()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return r, stop
}

func settled(t *testing.T, r *forge.Reporter) {
	t.Helper()
	require.Eventually(t, func() bool { return r.Pending() == 0 }, 10*time.Second, time.Millisecond)
}

func words(rows []forgetest.Row) string {
	var out []string
	for _, row := range rows {
		out = append(out, row.Context+"="+row.State)
	}
	return strings.Join(out, " ")
}

func TestDeliveryReport_CS03_TwoClustersSpeakUnderTwoNames(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitHub)
	commit := server.AddCommit()
	us, _ := reporter(t, provider(t, forge.KindGitHub, server), nil)
	eu, _ := reporter(t, provider(t, forge.KindGitHub, server), nil)
	for range 20 { // passes of both, side by side
		require.NoError(t, us.Want(forge.Status{Commit: commit, Context: "fleetwright/fleet/us-east-1", State: forge.Success, Description: "4/4 nodes"}))
		require.NoError(t, eu.Want(forge.Status{Commit: commit, Context: "fleetwright/fleet/eu-west-1", State: forge.Failure, Description: "halted"}))
		settled(t, us)
		settled(t, eu)
	}
	require.ElementsMatch(t, []string{"fleetwright/fleet/us-east-1=success", "fleetwright/fleet/eu-west-1=failure"}, strings.Fields(words(server.Rows(commit))))
}

func TestDeliveryReport_CS07_TheRowLimitIsNotTriedAgain(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitHub)
	commit, heard := server.AddCommit(), &said{}
	for range 1000 {
		server.AddRow(forgetest.Row{Commit: commit, Context: "fleetwright/a", State: "pending"})
	}
	r, _ := reporter(t, provider(t, forge.KindGitHub, server), heard)
	for i := range 5 {
		require.NoError(t, r.Want(forge.Status{Commit: commit, Context: "fleetwright/a", State: forge.Success, Description: fmt.Sprint(i)}))
		require.Eventually(t, func() bool { return len(heard.all()) == 1 }, 10*time.Second, time.Millisecond)
	}
	other := forge.Status{Commit: commit, Context: "fleetwright/b", State: forge.Success}
	require.NoError(t, r.Want(other)) // what comes after it is delivered
	require.Eventually(t, func() bool { return len(heard.all()) == 2 }, 10*time.Second, time.Millisecond)
	require.Equal(t, []string{
		"post status (github): server answered 422 Unprocessable Entity: Validation Failed; This SHA and context has reached the maximum number of statuses.",
		"posted",
	}, heard.all())
	require.Equal(t, 2, server.Posts("POST", "/statuses/"+commit), "one for the full context, one for the other")
}

func TestDeliveryReport_CS10_ACompletedCheckRunHasAConclusionAndNeverGoesBack(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitHub)
	p := provider(t, forge.KindGitHub, server, func(c *forge.Config) { c.Credential.AppID = forgetest.AppID })
	pull := forge.PullRequest{Number: 1, Head: server.AddPull(forgetest.Pull{}).Head}
	show := func(all ...forge.Annotation) []forgetest.Note {
		require.NoError(t, p.(forge.Annotator).Annotate(t.Context(), pull, "fleetwright/a/plan", all))
		return server.Notes(pull.Head)
	}
	require.Empty(t, show())
	require.Zero(t, server.Posts("POST", "/check-runs"), "nothing to say, nothing to clear")
	wrong := forge.Annotation{File: "a.yaml", Line: 3, Error: true, Text: "unknown field"}
	odd := forge.Annotation{File: "a.yaml", Line: 4, Text: "deprecated"}
	require.Equal(t, []forgetest.Note{{Path: "a.yaml", Line: 3, Text: "unknown field", Error: true}, {Path: "a.yaml", Line: 4, Text: "deprecated"}}, show(wrong, odd))
	show(wrong, odd)
	require.Equal(t, 1, server.Posts("POST", "/check-runs"), "equal findings are no new run")
	require.Len(t, show(odd), 1)
	require.Empty(t, show())
	require.Equal(t, 3, server.Posts("POST", "/check-runs"))
	require.Equal(t, []string{"completed failure", "completed neutral", "completed success"}, server.Runs(pull.Head))
}

func TestDeliveryReport_CS13_ANameThatAJobHasIsNamed(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitLab)
	commit := server.AddCommit()
	server.AddPipeline(commit, forgetest.Base, "build")
	p := provider(t, forge.KindGitLab, server)
	err := p.SetStatus(t.Context(), forge.Status{Commit: commit, Context: "build", State: forge.Pending, Ref: forgetest.Base})
	require.EqualError(t, err, `post status (gitlab): a CI job of this commit is named "build" too: choose another spec.checks.context`)
	require.Equal(t, forge.Permanent, forge.ClassOf(err))
	require.NoError(t, p.SetStatus(t.Context(), forge.Status{Commit: commit, Context: "fleetwright/build", State: forge.Pending, Ref: forgetest.Base}))
}

func TestDeliveryReport_CS15_TwoMergeRequestsWithOneHeadHaveTwoStatuses(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitLab)
	first := server.AddPull(forgetest.Pull{Branch: "topic"})
	second := server.AddPull(forgetest.Pull{Branch: "topic", Base: "release", Head: first.Head})
	one := server.AddPipeline(first.Head, fmt.Sprintf("refs/merge-requests/%d/head", first.Number))
	two := server.AddPipeline(first.Head, fmt.Sprintf("refs/merge-requests/%d/head", second.Number))
	p := provider(t, forge.KindGitLab, server)
	for _, step := range []struct {
		pull  int64
		state forge.State
	}{{first.Number, forge.Pending}, {second.Number, forge.Pending}, {first.Number, forge.Success}, {second.Number, forge.Failure}} {
		require.NoError(t, p.SetStatus(t.Context(), forge.Status{
			Commit: first.Head, Context: "fleetwright/a/plan", State: step.state, Ref: "topic", Pull: step.pull,
		}))
	}
	got := map[int64]string{}
	for _, row := range server.Rows(first.Head) {
		got[row.Pipeline] += row.State + " "
	}
	require.Equal(t, map[int64]string{one: "success ", two: "failed "}, got)
}

func TestDeliveryReport_CS18_BitbucketTakesBothFormsAndSaysWhyNot(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindBitbucketCloud)
	s := forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Success}
	for name, credential := range map[string]forge.Credential{
		"access token": {Token: forgetest.Token}, "API token with e-mail": {Username: "bot@example.com", Password: forgetest.Token},
	} {
		require.NoError(t, provider(t, forge.KindBitbucketCloud, server, func(c *forge.Config) { c.Credential = credential }).SetStatus(t.Context(), s), name)
	}
	err := provider(t, forge.KindBitbucketCloud, server, func(c *forge.Config) {
		c.Credential = forge.Credential{Username: "bot", Password: forgetest.Token}
	}).SetStatus(t.Context(), s)
	require.EqualError(t, err, "post status (bitbucket): the server does not accept the credential: app passwords have ended; use an access token (key token), "+
		"or an API token as password with the account's e-mail address as username")
	require.Equal(t, forge.Permanent, forge.ClassOf(err))
}

// TestDeliveryReport_CS19_AKilledLeaderIsNotRepeated: the first process dies after the forge took the row and before it heard so.
func TestDeliveryReport_CS19_AKilledLeaderIsNotRepeated(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitHub)
	s := forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Success, Description: "4/4 nodes"}
	taken, died := make(chan struct{}), make(chan struct{})
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		server.Store(s) // the lock is held
		close(taken)
		<-died
		panic(http.ErrAbortHandler) // no answer
	})
	first, kill := reporter(t, provider(t, forge.KindGitHub, server), nil)
	require.NoError(t, first.Want(s))
	<-taken
	go kill()
	close(died)
	server.Intercept(nil)
	kill()
	second, _ := reporter(t, provider(t, forge.KindGitHub, server), nil)
	require.NoError(t, second.Want(s))
	settled(t, second)
	require.Equal(t, "fleetwright/a=success", words(server.Rows(s.Commit)))
}

func TestDeliveryReport_CS21_AStatusEndsInThePipelineWhereItBegan(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitLab)
	pull := server.AddPull(forgetest.Pull{Branch: "topic"})
	branch := server.AddPipeline(pull.Head, "topic")
	server.AddPipeline(pull.Head, "refs/merge-requests/1/head")
	s := forge.Status{Commit: pull.Head, Context: "fleetwright/a", State: forge.Pending, Ref: "topic"}
	require.NoError(t, provider(t, forge.KindGitLab, server).SetStatus(t.Context(), s))
	server.AddPipeline(pull.Head, "topic") // a newer one of the same branch
	r, _ := reporter(t, provider(t, forge.KindGitLab, server), nil)
	s.State = forge.Success // by another process
	require.NoError(t, r.Want(s))
	settled(t, r)
	rows := server.Rows(pull.Head)
	require.Len(t, rows, 1)
	require.Equal(t, branch, rows[0].Pipeline)
	require.Equal(t, "success", rows[0].State)
}

func TestDeliveryReport_CS25_ANewTextOfARunningStatusIsNoErrorAndNoLoop(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitLab)
	commit, heard := server.AddCommit(), &said{}
	r, _ := reporter(t, provider(t, forge.KindGitLab, server), heard)
	s := forge.Status{Commit: commit, Context: "fleetwright/a", State: forge.Pending, Ref: forgetest.Base, TargetURL: "https://fleet.example.com/0"}
	for i := range 20 {
		s.Description, s.TargetURL = fmt.Sprintf("%d/20 nodes", i), fmt.Sprintf("https://fleet.example.com/%d", i)
		require.NoError(t, r.Want(s))
		settled(t, r)
	}
	s.State = forge.Success
	require.NoError(t, r.Want(s))
	settled(t, r)
	require.Equal(t, []string{"posted", "posted"}, heard.all())
	require.Equal(t, 2, server.Posts("POST", "/statuses/"+commit))
	// A writer that does not know the state meets the refusal, and takes it for what it means.
	err := provider(t, forge.KindGitLab, server).SetStatus(t.Context(), forge.Status{Commit: server.AddCommit(), Context: "x", State: forge.Pending})
	require.NoError(t, err)
	again := forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Pending}
	require.NoError(t, provider(t, forge.KindGitLab, server).SetStatus(t.Context(), again))
	require.Equal(t, forge.AlreadyThere, forge.ClassOf(provider(t, forge.KindGitLab, server).SetStatus(t.Context(), again)))
}

func TestGitLabTriesAgainWhileTheCommitIsLocked(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindGitLab)
	s, locked := forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Pending}, 3
	server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && locked > 0 {
			locked--
			w.WriteHeader(http.StatusConflict)
			return true
		}
		return false
	})
	require.NoError(t, provider(t, forge.KindGitLab, server).SetStatus(t.Context(), s))
	locked = 100
	err := provider(t, forge.KindGitLab, server).SetStatus(t.Context(), s)
	require.Equal(t, forge.Retry, forge.ClassOf(err))
	require.Equal(t, 95, locked)
}

func TestAzureSignInPageIsAnExpiredToken(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindAzureDevOps)
	s := forge.Status{Commit: server.AddCommit(), Context: "fleetwright/a", State: forge.Success}
	const want = "post status (azuredevops): the server does not accept the token: it has expired, was revoked, or is not for this organisation"
	wrong := provider(t, forge.KindAzureDevOps, server, func(c *forge.Config) { c.Credential.Token = "old" })
	require.EqualError(t, wrong.SetStatus(t.Context(), s), want)
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNonAuthoritativeInfo)
		_, _ = io.WriteString(w, "<html>Sign in</html>")
		return true
	})
	err := provider(t, forge.KindAzureDevOps, server).SetStatus(t.Context(), s)
	require.EqualError(t, err, want)
	require.Equal(t, forge.Permanent, forge.ClassOf(err))
}

// TestAzureStatusOfAPullRequestBelongsToItsPush: a policy asks anew after the next one.
func TestAzureStatusOfAPullRequestBelongsToItsPush(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindAzureDevOps)
	pull := server.AddPull(forgetest.Pull{})
	s := forge.Status{Commit: pull.Head, Context: "fleetwright/a/plan", State: forge.Success, Pull: pull.Number}
	require.NoError(t, provider(t, forge.KindAzureDevOps, server).SetStatus(t.Context(), s))
	rows := server.Rows("")
	require.Len(t, rows, 1)
	require.Equal(t, "fleetwright|a/plan", rows[0].Context)
	require.EqualValues(t, 2, rows[0].IterationN)
}

// TestCredentialsStayOutOfErrors: whatever a forge answers, and wherever it redirects to.
func TestCredentialsStayOutOfErrors(t *testing.T) {
	for _, kind := range []forge.Kind{
		forge.KindGitHub, forge.KindGitLab, forge.KindGitea, forge.KindBitbucketCloud, forge.KindBitbucketDataCenter, forge.KindAzureDevOps,
	} {
		server := forgetest.NewServer(t, kind)
		for _, code := range []int{302, 400, 401, 403, 404, 409, 418, 422, 429, 500, 502} {
			server.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", "https://evil.example.com/?token="+forgetest.Token)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				fmt.Fprintf(w, `{"message":"you sent %s and https://u:p4ss@x.example.com", "errors":[{"message":"%s"}]}`, r.Header.Get("Authorization"), forgetest.Token)
				return true
			})
			p := provider(t, kind, server)
			err := p.SetStatus(t.Context(), forge.Status{Commit: strings.Repeat("a", 40), Context: "fleetwright/a", State: forge.Success})
			require.Error(t, err)
			require.NotContains(t, err.Error(), forgetest.Token)
			require.NotContains(t, err.Error(), "p4ss")
			require.NotContains(t, err.Error(), base64.StdEncoding.EncodeToString([]byte(":"+forgetest.Token)))
			_, err = p.Statuses(t.Context(), strings.Repeat("a", 40))
			require.Error(t, err, "%s %d", kind, code)
			require.NotContains(t, err.Error(), forgetest.Token)
		}
	}
}
