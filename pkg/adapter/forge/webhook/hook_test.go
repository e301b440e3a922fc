package webhook

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

const secret = "It's a Secret to Everybody"

// sample is one request as its provider sends it.
type sample struct {
	file     string
	provider fleetv1.WebhookProvider
	header   map[string]string
	want     wake.Event
}

func repos(t testing.TB, urls ...string) []wake.Repository {
	t.Helper()
	var out []wake.Repository
	for _, u := range urls {
		r, ok := wake.RepositoryOf(u)
		require.True(t, ok, u)
		out = append(out, r)
	}
	return out
}

func samples(t testing.TB) []sample {
	hub, tea := repos(t, "https://github.com/acme/fleet"), repos(t, "https://git.example.com/acme/fleet", "ssh://git@ssh.example.com/acme/fleet")
	lab, cloud := repos(t, "https://gitlab.example.com/acme/fleet"), repos(t, "https://bitbucket.org/acme/fleet")
	dc, ado := repos(t, "https://bitbucket.example.com/scm/plat/fleet"), repos(t, "https://dev.azure.com/acme/plat/_git/fleet")
	push := func(all []wake.Repository, name string, refs ...string) wake.Event {
		return wake.Event{Kind: wake.Push, Name: name, Repositories: all, Refs: refs, DefaultBranch: "main"}
	}
	pull := func(all []wake.Repository, name string, bases ...string) wake.Event {
		return wake.Event{Kind: wake.PullRequest, Name: name, Repositories: all, Bases: bases, DefaultBranch: "main"}
	}
	noDefault := func(e wake.Event) wake.Event { e.DefaultBranch = ""; return e }
	retargeted := func(e wake.Event) wake.Event { e.Retargeted = true; return e }
	ping := wake.Event{Kind: wake.Ping, Name: "ping", Repositories: hub, DefaultBranch: "main"}
	like := func(prefix, event string) map[string]string { // what Gitea and its descendants send beside their own
		h := map[string]string{"X-GitHub-Event": event, "X-GitHub-Delivery": "d1", "X-Gogs-Event": event, "X-Gogs-Delivery": "d1", "X-Gitea-Event": event}
		h["X-"+prefix+"-Event"], h["X-"+prefix+"-Delivery"] = event, "d1"
		return h
	}
	hubHeader := func(event string) map[string]string {
		return map[string]string{"X-GitHub-Event": event, "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
	}
	return []sample{
		{"github-push", github, hubHeader("push"), push(hub, "push", "refs/heads/main")},
		{"github-branch-created", github, hubHeader("push"), push(hub, "push", "refs/heads/release")},
		{"github-branch-deleted", github, hubHeader("push"), push(hub, "push", "refs/heads/release")},
		{"github-create", github, hubHeader("create"), push(hub, "create", "refs/tags/v1.2.0")},
		{"github-create", github, hubHeader("delete"), push(hub, "delete", "refs/tags/v1.2.0")},
		{"github-pull_request", github, hubHeader("pull_request"), pull(hub, "pull_request", "main", "next")},
		{"github-ping", github, hubHeader("ping"), ping},
		{"gitea-push", gitea, like("Gitea", "push"), push(tea, "push", "refs/heads/main")},
		{"gitea-push", gitea, like("Forgejo", "push"), push(tea, "push", "refs/heads/main")},
		{"gitea-push", gitea, map[string]string{"X-Gogs-Event": "push", "X-Gogs-Delivery": "d1"}, push(tea, "push", "refs/heads/main")},
		{"gitea-create", gitea, like("Gitea", "create"), push(tea, "create", "refs/tags/v1.2.0")},
		{"gitea-pull_request", gitea, like("Gitea", "pull_request"), retargeted(pull(tea, "pull_request", "main"))},
		{"gitea-pull_request", gitea, like("Gitea", "pull_request_sync"), retargeted(pull(tea, "pull_request_sync", "main"))},
		{"gitlab-push", gitLab, map[string]string{"X-Gitlab-Event": "Push Hook", "Idempotency-Key": "k1"}, push(lab, "Push Hook", "refs/heads/main")},
		{"gitlab-push", gitLab, map[string]string{"X-Gitlab-Event": "System Hook", "X-Gitlab-Event-UUID": "u1"}, push(lab, "System Hook", "refs/heads/main")},
		{"gitlab-tag", gitLab, map[string]string{"X-Gitlab-Event": "Tag Push Hook", "Idempotency-Key": "k1"}, push(lab, "Tag Push Hook", "refs/tags/v1.2.0")},
		{"gitlab-merge", gitLab, map[string]string{"X-Gitlab-Event": "Merge Request Hook", "Idempotency-Key": "k1"}, pull(lab, "Merge Request Hook", "main", "next")},
		{
			"bitbucket-push", bitbucket, map[string]string{"X-Event-Key": "repo:push", "X-Request-UUID": "u1"},
			push(cloud, "repo:push", "refs/heads/main", "refs/tags/v1.2.0", "refs/heads/gone"),
		},
		{"bitbucket-pull", bitbucket, map[string]string{"X-Event-Key": "pullrequest:updated", "X-Request-UUID": "u1"}, noDefault(pull(cloud, "pullrequest:updated", "main"))},
		{
			"bitbucketdc-push", bitbucket, map[string]string{"X-Event-Key": "repo:refs_changed", "X-Request-Id": "u1"},
			noDefault(push(dc, "repo:refs_changed", "refs/heads/main", "refs/tags/v1.2.0")),
		},
		{
			"bitbucketdc-old-push", bitbucket, map[string]string{"X-Event-Key": "repo:refs_changed", "X-Request-Id": "u1"},
			noDefault(push([]wake.Repository{{Path: "plat/fleet"}}, "repo:refs_changed", "refs/heads/main")),
		},
		{"bitbucketdc-pull", bitbucket, map[string]string{"X-Event-Key": "pr:modified", "X-Request-Id": "u1"}, noDefault(pull(dc, "pr:modified", "main", "next"))},
		{"azuredevops-push", azure, nil, push(ado, "git.push", "refs/heads/main", "refs/tags/v1.2.0")},
		{"azuredevops-pull", azure, nil, pull(ado, "git.pullrequest.updated", "main")},
		{"generic-push", generic, nil, noDefault(push(tea[:1], "generic push", "refs/heads/main"))},
		{"generic-pull", generic, nil, noDefault(pull(tea[:1], "generic pull request", "main"))},
	}
}

func body(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file+".json"))
	require.NoError(t, err)
	return data
}

// signed makes the headers of a request with the body, as its provider signs it.
func signed(s sample, body []byte) http.Header {
	h := http.Header{}
	for k, v := range s.header {
		h.Set(k, v)
	}
	digits := hexOf(sign([]byte(secret), body))
	switch s.provider {
	case gitea:
		for _, name := range []string{"X-Forgejo", "X-Gitea", "X-Gogs"} {
			h.Set(name+"-Signature", digits)
		}
	case github:
		h.Set("X-Hub-Signature-256", "sha256="+digits)
	case gitLab:
		h.Set("X-Gitlab-Token", secret)
	case bitbucket:
		h.Set("X-Hub-Signature", "sha256="+digits)
	case azure:
		h.Set(TokenHeader, secret)
	default:
		h.Set(GenericSignature, "sha256="+digits)
	}
	return h
}

func resultOf(t *testing.T, err error) wake.Result {
	t.Helper()
	var refusal *wake.Refusal
	require.ErrorAs(t, err, &refusal)
	require.NotContains(t, refusal.Message, secret)
	return refusal.Result
}

func TestEveryProviderIsReadAndVerified(t *testing.T) {
	for _, s := range samples(t) {
		data := body(t, s.file)
		hook, err := Read(signed(s, data), data)
		require.NoError(t, err, s.file)
		require.Equal(t, s.want, hook.Event, s.file)
		require.Equal(t, s.provider, hook.Provider, s.file)
		require.NoError(t, hook.Verify([]byte(secret), time.Now()), s.file)
		require.Equal(t, wake.Forbidden, resultOf(t, hook.Verify([]byte("another"), time.Now())), s.file)
		require.Equal(t, wake.Forbidden, resultOf(t, hook.Verify(nil, time.Now())), s.file)
		require.Equal(t, s.provider == generic, hook.Delivery == "", s.file)
	}
}

// TestABodyThatWasChangedIsNotGenuine: the signature is over every byte. Azure DevOps and GitLab's plain token sign nothing.
func TestABodyThatWasChangedIsNotGenuine(t *testing.T) {
	for _, s := range samples(t) {
		if s.provider == azure || s.provider == gitLab {
			continue
		}
		data := body(t, s.file)
		header := signed(s, data)
		hook, err := Read(header, append(slices.Clone(data), '\n'))
		require.NoError(t, err)
		require.Equal(t, wake.Forbidden, resultOf(t, hook.Verify([]byte(secret), time.Now())), s.file)
	}
}

func TestDeliveriesAreToldApart(t *testing.T) {
	s := samples(t)[0]
	data := body(t, s.file)
	header := signed(s, data)
	first, err := Read(header, data)
	require.NoError(t, err)
	again, err := Read(header, data)
	require.NoError(t, err)
	require.Equal(t, first.Delivery, again.Delivery)
	other, err := Read(header, body(t, "github-branch-created"))
	require.NoError(t, err)
	require.NotEqual(t, first.Delivery, other.Delivery, "one number for two events: GitLab gives one to all refs of a push")
	header.Set("X-GitHub-Delivery", "another")
	other, err = Read(header, data)
	require.NoError(t, err)
	require.NotEqual(t, first.Delivery, other.Delivery)
}

func TestOtherEventsAreIgnoredUnread(t *testing.T) {
	for header, events := range map[string][]string{
		"X-GitHub-Event": {"issue_comment", "star", "", "\x00\xff"}, "X-Gitea-Event": {"issues", "pull_request_comment"}, "X-Gitlab-Event": {"Note Hook"},
		"X-Event-Key": {"repo:fork", "pullrequest:comment_created"},
	} {
		for _, event := range events {
			hook, err := Read(http.Header{http.CanonicalHeaderKey(header): {event}}, []byte("not even JSON"))
			require.NoError(t, err, event)
			require.Equal(t, wake.Ignored, hook.Event.Kind, event)
		}
	}
	hook, err := Read(http.Header{"X-Gitlab-Event": {"System Hook"}}, []byte(`{"event_name":"user_create"}`))
	require.NoError(t, err)
	require.Equal(t, wake.Ignored, hook.Event.Kind)
	hook, err = Read(http.Header{}, []byte(`{"eventType":"build.complete","publisherId":"tfs"}`))
	require.NoError(t, err)
	require.Equal(t, wake.Ignored, hook.Event.Kind)
	hook, err = Read(http.Header{"X-Event-Key": {"diagnostics:ping"}, "X-Hub-Signature": {"sha256=" + strings.Repeat("0", 64)}}, []byte(`{"test": true}`))
	require.NoError(t, err)
	require.Equal(t, wake.Ping, hook.Event.Kind)
}

func TestAFormHoldsTheJSON(t *testing.T) {
	data := []byte("payload=" + urlEscape(string(body(t, "github-push"))))
	s := samples(t)[0]
	header := signed(s, data)
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	hook, err := Read(header, data)
	require.NoError(t, err)
	require.Equal(t, s.want, hook.Event)
	require.NoError(t, hook.Verify([]byte(secret), time.Now()), "the signature is over the form, not over the JSON in it")
	_, err = Read(header, []byte("other=1"))
	require.EqualError(t, err, "the body is a form without a field payload (allowed: JSON, or a form with the JSON in payload)")
}

// mutate calls use for every variant of a document in which one value is gone, null, or of another type; the document is
// changed in place, and is as it was in the end.
func mutate(node any, path string, use func(path string)) {
	wrong := []any{nil, 1.5, -7, true, "text", []any{}, []any{nil}, []any{"x"}, map[string]any{}, map[string]any{"x": nil}}
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			had, here := node[key], path+"."+key
			delete(node, key)
			use(here + " gone")
			for _, w := range wrong {
				node[key] = w
				use(here)
			}
			node[key] = had
			mutate(had, here, use)
		}
	case []any:
		for i, had := range node {
			for _, w := range wrong {
				node[i] = w
				use(path + "[]")
			}
			node[i] = had
			mutate(had, path+"[]", use)
		}
	}
}

func TestDeliveryReport_WH01_NoFieldIsTakenForGranted(t *testing.T) {
	seen, refused := 0, 0
	for _, s := range samples(t) {
		var document any
		require.NoError(t, json.Unmarshal(body(t, s.file), &document))
		mutate(document, "", func(path string) {
			data, err := json.Marshal(document)
			require.NoError(t, err)
			seen++
			hook, err := Read(signed(s, data), data)
			if err != nil {
				refused++
				require.Contains(t, []wake.Result{wake.Malformed, wake.Unsigned}, resultOf(t, err), "%s %s", s.file, path)
				return
			}
			if hook.Event.Kind == wake.Ignored {
				return
			}
			require.NoError(t, hook.Verify([]byte(secret), time.Now()), "%s %s", s.file, path)
			if s.file == "generic-pull" && strings.HasPrefix(path, ".pullRequest") {
				return // without a number it is a push
			}
			require.Subset(t, append(s.want.Refs, "refs/heads/text", "text", "refs/tags/text"), hook.Event.Refs, "%s %s: nothing is made up", s.file, path)
		})
		for _, whole := range []string{"", "null", "1", `"x"`, "[]", "[null]", "{}", "{", `{"ref":`, "\x00", strings.Repeat("[", 100_000), `{"repository":{}}`} {
			_, err := Read(signed(s, []byte(whole)), []byte(whole))
			if s.want.Kind != wake.Ping && !isIgnoredSystemHook(s, whole) {
				require.Equal(t, wake.Malformed, resultOf(t, err), "%s %q", s.file, whole)
			}
		}
	}
	require.Greater(t, seen, 5000)
	require.Greater(t, refused, 500)
}

// isIgnoredSystemHook: a system hook whose body names no event is none of ours.
func isIgnoredSystemHook(s sample, whole string) bool {
	return s.header["X-Gitlab-Event"] == "System Hook" && slices.Contains([]string{"null", "{}", `{"repository":{}}`}, whole)
}

func TestWrongTypesAreNamed(t *testing.T) {
	header := http.Header{"X-Github-Event": {"push"}}
	for text, want := range map[string]string{
		`{"repository": 1}`:                "the body's field repository has the type number (allowed: object)",
		`{"repository":{"clone_url":[]}}`:  "the body's field repository.clone_url has the type array (allowed: string)",
		`{"ref": {}}`:                      "the body's field ref has the type object (allowed: string)",
		`[]`:                               "the body has the type array (allowed: a JSON object)",
		`{"ref": "refs/heads/main"`:        "the body is no JSON",
		`{"ref": "refs/heads/main"}`:       `the body of the event "push" names no repository`,
		`{"repository":{"clone_url":"x"}}`: `the body of the event "push" names no repository`,
		`{"repository":{"clone_url":"https://github.com/acme/fleet"}}`: `the body of the event "push" names no branch and no tag`,
	} {
		_, err := Read(header, []byte(text))
		require.EqualError(t, err, want, text)
	}
}

func TestDeliveryReport_WH03_AnEmptyEventOfGogsIsRefused(t *testing.T) {
	for _, event := range []string{"push", "create", "delete", "pull_request"} {
		for _, text := range []string{`{}`, `{"repository":null}`, `{"repository":{"owner":null}}`} {
			_, err := Read(http.Header{"X-Gogs-Event": {event}}, []byte(text))
			require.Equal(t, wake.Malformed, resultOf(t, err))
		}
	}
}

func TestDeliveryReport_WH13_ABranchThatIsMadeOrDeletedIsAPush(t *testing.T) {
	for _, s := range samples(t) {
		if strings.HasPrefix(s.file, "github-branch-") {
			data := body(t, s.file)
			hook, err := Read(signed(s, data), data)
			require.NoError(t, err)
			fleet := &fleetv1.Fleet{Spec: fleetv1.FleetSpec{Source: fleetv1.Source{Ref: &fleetv1.GitRef{Branch: "release"}}}}
			require.Equal(t, wake.Revision, wake.For(fleet, hook.Event), s.file)
		}
	}
}

func FuzzRead(f *testing.F) {
	all := samples(f)
	for i, s := range all {
		data, err := os.ReadFile(filepath.Join("testdata", s.file+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), "sha256=00", data)
	}
	f.Fuzz(func(t *testing.T, which byte, signature string, data []byte) {
		s := all[int(which)%len(all)]
		header := signed(s, data)
		hook, err := Read(header, data)
		if err == nil && hook.Event.Kind != wake.Ignored {
			require.NoError(t, hook.Verify([]byte(secret), time.Now()))
			require.Error(t, hook.Verify([]byte("another"), time.Now()))
		}
		for name := range header {
			if strings.Contains(name, "Signature") || strings.Contains(name, "Token") || name == "Authorization" {
				header.Set(name, signature)
			}
		}
		header.Set("Webhook-Signature", signature)
		header.Set("Authorization", signature)
		hook, err = Read(header, data)
		var refusal *wake.Refusal
		if err != nil {
			require.True(t, errors.As(err, &refusal))
		} else if hook.Event.Kind != wake.Ignored && signature != secret {
			require.Error(t, hook.Verify([]byte(secret), time.Now()))
		}
	})
}
