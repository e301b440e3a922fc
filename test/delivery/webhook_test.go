package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/gitserver"
)

const hookSecret = "a secret for webhooks"

// hooked makes a Fleet whose interval nobody waits for, and which GitHub may wake.
func hooked(provider fleetv1.WebhookProvider) func(*fleetv1.Fleet) {
	return func(f *fleetv1.Fleet) {
		f.Spec.Interval.Duration = 10 * time.Minute
		f.Spec.Checks = nil // git notes would be looked at too
		f.Spec.Webhook = &fleetv1.Webhook{Provider: provider}
		f.Spec.Webhook.SecretRef.Name = "hook"
	}
}

// newHookWorld is a world in which no retry comes before the test is over: what is looked at, a webhook has asked for.
func newHookWorld(t *testing.T) *world {
	w := newWorld(t, gitserver.Options{})
	w.kill()
	w.retryBase = time.Hour
	w.start()
	w.secret("hook", map[string]string{"token": hookSecret + "\n"})
	return w
}

// push is the body of GitHub's event.
func (w *world) push(repo, ref, before, after string) []byte {
	data, err := json.Marshal(map[string]any{
		"ref": ref, "before": before, "after": after, "created": before == none, "deleted": after == none,
		"repository": map[string]any{"clone_url": w.git.URL(repo), "html_url": strings.TrimSuffix(w.git.URL(repo), ".git"), "default_branch": "main"},
	})
	require.NoError(w.t, err)
	return data
}

var none = strings.Repeat("0", 40)

// hook sends a request as GitHub does, and returns the answer.
func (w *world) hook(event, delivery, secret string, body []byte) (int, string) {
	w.t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.hooks, strings.NewReader(string(body)))
	require.NoError(w.t, err)
	request.Header.Set("X-GitHub-Event", event)
	request.Header.Set("X-GitHub-Delivery", delivery)
	request.Header.Set("X-Hub-Signature-256", fmt.Sprintf("sha256=%x", mac.Sum(nil)))
	response, err := http.DefaultClient.Do(request)
	require.NoError(w.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	return response.StatusCode, string(text)
}

// accepted sends until the receiver, which starts with the process, has its caches.
func (w *world) accepted(event, delivery string, body []byte) {
	w.t.Helper()
	var code int
	var text string
	require.Eventually(w.t, func() bool {
		code, text = w.hook(event, delivery, hookSecret, body)
		return code == http.StatusAccepted && strings.HasPrefix(text, "accepted: 1 ")
	}, patience, moment, "%d %s", &code, &text)
}

// looks is how often the refs of a repository were asked for.
func (w *world) looks(repo string) int {
	n := 0
	for _, r := range w.git.Requests() {
		if r.Method == http.MethodGet && strings.HasSuffix(r.Path, "/"+repo+".git/info/refs") && r.Service == "git-upload-pack" {
			n++
		}
	}
	return n
}

// tuned is a good tree with another limit.
func tuned(limit int) map[string]string {
	files := good()
	files["a/package.yaml"] = strings.Replace(packageFile, "262144", fmt.Sprint(limit), 1)
	return files
}

// TestDeliveryReport_WH07_AWebhookOnlySaysLook: a signed push is handled at once; a forged one, one with an old commit and one
// that comes again change nothing, and cost at most a look at the refs.
func TestDeliveryReport_WH07_AWebhookOnlySaysLook(t *testing.T) {
	w := newHookWorld(t)
	first := w.repo("hooked", good())
	f := w.fleet("hooked", "hooked", hooked("github"))
	w.untilApplied(f, first)
	second := w.commit("hooked", tuned(524288))
	w.accepted("push", "d1", w.push("hooked", "refs/heads/main", first, second))
	w.untilApplied(f, second)

	looks, fetched, before := w.looks("hooked"), fetches(w), w.get(f).Annotations[fleetv1.PushedAtAnnotation]
	require.NotEmpty(t, before)
	codes := map[int]int{}
	for i := range 300 {
		code, _ := w.hook("push", fmt.Sprint("forged-", i), "a guess", w.push("hooked", "refs/heads/main", second, first))
		codes[code]++
	}
	require.Zero(t, codes[http.StatusAccepted])
	require.NotZero(t, codes[http.StatusForbidden])
	require.Equal(t, 300, codes[http.StatusForbidden]+codes[http.StatusTooManyRequests])
	require.Equal(t, before, w.get(f).Annotations[fleetv1.PushedAtAnnotation])

	code, text := "", ""
	require.Eventually(t, func() bool { // once the flood is over
		c, s := w.hook("push", "d1", hookSecret, w.push("hooked", "refs/heads/main", first, second))
		code, text = fmt.Sprint(c), s
		return c == http.StatusAccepted
	}, patience, moment, "%s", &code)
	require.Equal(t, "this delivery was accepted before\n", text)
	require.Equal(t, looks, w.looks("hooked"), "neither the flood nor the repetition was a look")

	w.accepted("push", "d2", w.push("hooked", "refs/heads/main", second, first)) // signed, and it names the old commit
	w.until(f, func(now *fleetv1.Fleet) bool { return w.looks("hooked") > looks })
	now := w.settled(f)
	require.Equal(t, "main@sha1:"+second, now.Status.LastAppliedRevision, "the revision comes from the server")
	require.Equal(t, looks+1, w.looks("hooked"))
	require.Equal(t, fetched, fetches(w), "a commit that is known is not fetched again")
}

// settled waits until the newest webhook was worked on: the same Fleet is asked by hand, and one worker does both in order.
func (w *world) settled(f *fleetv1.Fleet) *fleetv1.Fleet {
	w.t.Helper()
	w.play("gpu", completed) // an event of a delivered object starts a pass that looks at nothing
	return w.until(f, func(now *fleetv1.Fleet) bool {
		return now.Status.LastRolledOutRevision != "" && ready(now).Reason == "ReconciliationSucceeded"
	})
}

// TestDeliveryReport_WH09_OtherBranchesAreNotLookedFor: only who follows the ref looks.
func TestDeliveryReport_WH09_OtherBranchesAreNotLookedFor(t *testing.T) {
	w := newHookWorld(t)
	first := w.repo("branches", good())
	f := w.fleet("branches", "branches", hooked("github"), func(f *fleetv1.Fleet) {
		f.Spec.Source.Ref = &fleetv1.GitRef{Branch: "main"}
	})
	w.untilApplied(f, first)
	looks := w.looks("branches")
	w.accepted("push", "warm-up", w.push("branches", "refs/heads/main", first, first))
	w.until(f, func(*fleetv1.Fleet) bool { return w.looks("branches") == looks+1 })

	dev, err := w.git.Apply("branches", gitserver.Change{Branch: "dev", Message: "elsewhere", Files: tuned(1), Parent: first})
	require.NoError(t, err)
	before := w.get(f).Annotations
	for i, ref := range []string{"refs/heads/dev", "refs/heads/main2", "refs/tags/main", "refs/heads/x/main"} {
		code, text := w.hook("push", fmt.Sprint(i), hookSecret, w.push("branches", ref, none, dev))
		require.Equal(t, http.StatusAccepted, code)
		require.Equal(t, "genuine, but no Fleet follows what this event is about\n", text)
	}
	require.Equal(t, before, w.get(f).Annotations, "nobody was woken")
	w.settled(f)
	require.Equal(t, looks+1, w.looks("branches"), "nobody looked")

	w.edit(f, func(now *fleetv1.Fleet) {
		now.Spec.Checks = &fleetv1.Checks{Provider: fleetv1.ProviderGitNotes, PullRequests: &fleetv1.PullRequestChecks{Plan: true}}
	})
	pull := map[string]any{
		"action": "opened", "pull_request": map[string]any{"base": map[string]any{"ref": "main"}}, "repository": map[string]any{"clone_url": w.git.URL("branches")},
	}
	body, err := json.Marshal(pull)
	require.NoError(t, err)
	w.accepted("pull_request", "p1", body)
	now := w.until(f, func(now *fleetv1.Fleet) bool { return now.Annotations[fleetv1.ReviewRequestedAtAnnotation] != "" })
	require.Equal(t, before[fleetv1.PushedAtAnnotation], now.Annotations[fleetv1.PushedAtAnnotation], "a pull request moves no branch")
}

// TestDeliveryReport_WH13_ABranchThatIsMadeLaterIsSeenAtOnce: the Fleet was there first, and its branch comes with a webhook.
func TestDeliveryReport_WH13_ABranchThatIsMadeLaterIsSeenAtOnce(t *testing.T) {
	w := newHookWorld(t)
	first := w.repo("later", good())
	f := w.fleet("later", "later", hooked("github"), func(f *fleetv1.Fleet) { f.Spec.Source.Ref = &fleetv1.GitRef{Branch: "release"} })
	w.untilReason(f, "RefNotFound")
	_, err := w.git.Git("later", "branch", "release", first)
	require.NoError(t, err)
	w.accepted("push", "d1", w.push("later", "refs/heads/release", none, first))
	w.until(f, func(now *fleetv1.Fleet) bool { return now.Status.LastAppliedRevision == "release@sha1:"+first })
	require.NoError(t, w.git.DeleteBranch("later", "release"))
	w.accepted("push", "d2", w.push("later", "refs/heads/release", first, none))
	w.untilReason(f, "RefNotFound")
	nw := &nwv1.NodeWright{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: "gpu"}, nw), "a branch that is gone takes nothing with it")
}

// TestDeliveryReport_WH16_TheCommandOfThePageWorks runs what docs/webhooks.md shows, with this test's address and secret.
func TestDeliveryReport_WH16_TheCommandOfThePageWorks(t *testing.T) {
	for _, tool := range []string{"bash", "openssl", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s", tool)
		}
	}
	w := newHookWorld(t)
	first := w.repo("command", good())
	f := w.fleet("command", "command", hooked("generic"))
	w.untilApplied(f, first)
	second := w.commit("command", tuned(524288))
	command := w.commandOf("../../docs/webhooks.md", map[string]string{
		"https://hooks.example.com/webhook": w.hooks, "the-value-of-token": "'" + hookSecret + "'", "https://git.example.com/acme/fleet.git": w.git.URL("command"),
	})
	run := func(text string) string {
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	require.Equal(t, "no Fleet accepts this request; the log of the reconciler says why\n", run(strings.Replace(command, hookSecret, "a guess", 1)))
	base64d := strings.Replace(command, `-hmac "$secret" | sed 's/^.*= *//'`, `-binary -hmac "$secret" | base64`, 1)
	require.NotEqual(t, command, base64d)
	require.Equal(t, "header X-Fleetwright-Signature-256 is not sha256= and 64 hexadecimal digits: the HMAC-SHA256 of the body\n", run(base64d))
	require.Equal(t, "accepted: 1 of the Fleets of this repository look\n", run(command))
	w.untilApplied(f, second)
	for want, request := range map[string]string{
		"401 header X-Hub-Signature is not sha256= and 64 hexadecimal digits: the HMAC-SHA256 of the body\n": `-H 'X-Event-Key: repo:push' -H 'X-Hub-Signature: sha' -d '{"repository":{"full_name":"a/b"},"push":{"changes":[{"new":{"type":"branch","name":"x"}}]}}'`,
		"400 the body of the event \"push\" names no repository\n":                                           `-H 'X-Gogs-Event: push' -d '{}'`,
		"415 the body is compressed (allowed: no Content-Encoding)\n":                                        `-H 'Content-Encoding: gzip' -d x`,
		"405 webhooks are POST requests\n":                                                                   `-G`,
	} {
		out := run("curl -sS -w '%{http_code}' " + request + " " + w.hooks)
		code := out[len(out)-3:]
		require.Equal(t, want, code+" "+strings.TrimSuffix(out, code), request)
	}
}

// commandOf is the shell script of a page that ends in curl, with its examples replaced.
func (w *world) commandOf(page string, values map[string]string) string {
	w.t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(w.t, err)
	for _, m := range regexp.MustCompile("(?ms)^```bash\n(.*?)^```").FindAllStringSubmatch(string(data), -1) {
		if !strings.Contains(m[1], "curl ") {
			continue
		}
		text := m[1]
		for from := range maps.Keys(values) {
			require.Contains(w.t, text, from, "%s shows it", path.Base(page))
			text = strings.ReplaceAll(text, from, values[from])
		}
		return text
	}
	w.t.Fatalf("%s shows no curl", page)
	return ""
}
