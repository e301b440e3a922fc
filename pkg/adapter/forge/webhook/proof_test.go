package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/wake"
)

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func urlEscape(s string) string { return url.QueryEscape(s) }

// TestSignatureIsTheOneThatGitHubDocuments holds the arithmetic to a vector from GitHub's page on validating deliveries.
func TestSignatureIsTheOneThatGitHubDocuments(t *testing.T) {
	require.Equal(t, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", hexOf(sign([]byte(secret), []byte("Hello, World!"))))
}

// hmacHeaders are the headers that hold an HMAC in hexadecimal digits, and the sample that is sent with each.
func hmacHeaders() map[string]sample {
	return map[string]sample{
		"X-Hub-Signature-256": {"github-push", github, map[string]string{"X-GitHub-Event": "push"}, wake.Event{}},
		"X-Gitea-Signature":   {"gitea-push", gitea, map[string]string{"X-Gitea-Event": "push"}, wake.Event{}},
		"X-Forgejo-Signature": {"gitea-push", gitea, map[string]string{"X-Forgejo-Event": "push"}, wake.Event{}},
		"X-Gogs-Signature":    {"gitea-push", gitea, map[string]string{"X-Gogs-Event": "push"}, wake.Event{}},
		"X-Hub-Signature":     {"bitbucketdc-push", bitbucket, map[string]string{"X-Event-Key": "repo:refs_changed"}, wake.Event{}},
		GenericSignature:      {"generic-push", generic, map[string]string{GenericSignature: ""}, wake.Event{}},
	}
}

func TestDeliveryReport_WH04_ASignatureThatIsNoneIsRefused(t *testing.T) {
	for name, s := range hmacHeaders() {
		data := body(t, s.file)
		good := signed(s, data).Get(name)
		for _, value := range []string{
			"", " ", "s", "sha", "sha256", "sha256=", "sha1=" + strings.Repeat("0", 40), "sha256=zz", "sha256=" + strings.Repeat("z", 64), good[:len(good)-1], good[:len(good)-2],
			good + "00", "=" + good, "sha256:" + good, "\x00", strings.Repeat("sha256=", 2000), base64.StdEncoding.EncodeToString(sign([]byte(secret), data)),
		} {
			header := signed(s, data)
			header.Set(name, value)
			hook, err := Read(header, data)
			require.Equal(t, wake.Unsigned, resultOf(t, err), "%s: %q", name, value)
			require.Equal(t, s.provider, hook.Provider, "the metric knows whose it was")
		}
		header := signed(s, data)
		header.Set(name, strings.ToUpper(good[len(good)-64:]))
		if strings.HasPrefix(good, "sha256=") {
			header.Set(name, "sha256="+strings.ToUpper(good[7:]))
		}
		hook, err := Read(header, data)
		require.NoError(t, err)
		require.NoError(t, hook.Verify([]byte(secret), time.Now()), "capital digits are digits")
	}
}

func TestDeliveryReport_WH16_AWrongSignatureIsExplained(t *testing.T) {
	for name, s := range hmacHeaders() {
		data := body(t, s.file)
		prefix := "bare"
		if strings.Contains(name, "256") || name == "X-Hub-Signature" {
			prefix = "sha256="
		}
		without := signed(s, data)
		without.Del(name)
		_, err := Read(without, data)
		require.EqualError(t, err, "no header "+name+": give the webhook the secret of the Fleet's spec.webhook.secretRef")

		base64d := signed(s, data)
		base64d.Set(name, "sha256="+base64.StdEncoding.EncodeToString(sign([]byte(secret), data)))
		_, err = Read(base64d, data)
		require.EqualError(t, err, "header "+name+" is not "+prefix+" and 64 hexadecimal digits: the HMAC-SHA256 of the body")

		hook, err := Read(signed(s, data), append(data, '\n'))
		require.NoError(t, err)
		require.EqualError(t, hook.Verify([]byte(secret), time.Now()),
			"header "+name+" does not fit: another secret, or not over the body exactly as it was sent")
	}
	hub := body(t, "github-push")
	_, err := Read(http.Header{"X-Github-Event": {"push"}, "X-Hub-Signature": {"sha1=" + strings.Repeat("0", 40)}}, hub)
	require.EqualError(t, err, "no header X-Hub-Signature-256: give the webhook the secret of the Fleet's spec.webhook.secretRef", "the old signature does not do")
	_, err = Read(http.Header{}, body(t, "generic-push"))
	require.EqualError(t, err, "no header X-Fleetwright-Signature-256: give the webhook the secret of the Fleet's spec.webhook.secretRef")
	_, err = Read(http.Header{}, body(t, "azuredevops-push"))
	require.EqualError(t, err,
		"no password: give the service hook basic authentication or the header X-Fleetwright-Token, with the secret of the Fleet's spec.webhook.secretRef")
}

func TestAzureDevOpsShowsThePassword(t *testing.T) {
	data := body(t, "azuredevops-push")
	request := http.Request{Header: http.Header{}}
	request.SetBasicAuth("anybody", secret)
	hook, err := Read(request.Header, data)
	require.NoError(t, err)
	require.Equal(t, azure, hook.Provider)
	require.NoError(t, hook.Verify([]byte(secret), time.Now()))
	require.EqualError(t, hook.Verify([]byte("another"), time.Now()), "the password is not the Fleet's secret")
	for _, bad := range []string{"Basic", "Basic !", "Bearer " + secret, "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"))} {
		_, err = Read(http.Header{"Authorization": {bad}}, data)
		require.Equal(t, wake.Unsigned, resultOf(t, err), bad)
	}
	hook, err = Read(http.Header{TokenHeader: {"another"}}, data)
	require.NoError(t, err)
	require.EqualError(t, hook.Verify([]byte(secret), time.Now()), "header X-Fleetwright-Token is not the Fleet's secret")
}

// standard signs as GitLab does with a signing token.
func standard(key []byte, id string, at time.Time, data []byte) http.Header {
	stamp := fmt.Sprint(at.Unix())
	return http.Header{
		"X-Gitlab-Event": {"Push Hook"}, "Webhook-Id": {id}, "Webhook-Timestamp": {stamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(sign(key, []byte(id+"."+stamp+"."), data))},
	}
}

func TestDeliveryReport_WH15_GitLabsSignatureHoldsATime(t *testing.T) {
	data, now := body(t, "gitlab-push"), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	key := []byte("0123456789abcdef0123456789abcdef")
	token := []byte("whsec_" + base64.StdEncoding.EncodeToString(key))
	verify := func(header http.Header, secret []byte) error {
		hook, err := Read(header, data)
		if err != nil {
			return err
		}
		return hook.Verify(secret, now)
	}
	require.NoError(t, verify(standard(key, "m1", now, data), token))
	require.NoError(t, verify(standard([]byte(secret), "m1", now, data), []byte(secret)), "a token that is no whsec_ is the key itself")
	require.Error(t, verify(standard(nil, "m1", now, data), []byte("whsec_")), "a token that was cut off is no empty key, which everybody has")
	for age, good := range map[time.Duration]bool{
		4 * time.Minute: true, -4 * time.Minute: true, 6 * time.Minute: false, 10 * time.Minute: false, -6 * time.Minute: false, 1 << 60: false,
	} {
		err := verify(standard(key, "m1", now.Add(-age), data), token)
		require.Equal(t, good, err == nil, age)
		if !good {
			require.EqualError(t, err, "header webhook-timestamp is more than 5m0s from now: a replay, or a clock that is wrong")
		}
	}

	two := standard(key, "m1", now, data)
	two.Set("Webhook-Signature", "v1,AAAA v1a,xyz "+standard([]byte("old"), "m1", now, data).Get("Webhook-Signature")+" "+two.Get("Webhook-Signature"))
	require.NoError(t, verify(two, token), "one of several signatures fits")
	two.Set("Webhook-Signature", strings.Repeat(standard([]byte("old"), "m1", now, data).Get("Webhook-Signature")+" ", 3))
	require.Equal(t, wake.Forbidden, resultOf(t, verify(two, token)))

	for name, value := range map[string]string{"Webhook-Id": "m2", "Webhook-Timestamp": fmt.Sprint(now.Unix() + 1)} {
		changed := standard(key, "m1", now, data)
		changed.Set(name, value)
		require.Equal(t, wake.Forbidden, resultOf(t, verify(changed, token)), "%s is signed too", name)
	}
	for name, value := range map[string]string{"Webhook-Id": "", "Webhook-Timestamp": "soon", "Webhook-Signature": "v1,=="} {
		broken := standard(key, "m1", now, data)
		broken.Set(name, value)
		require.Equal(t, wake.Unsigned, resultOf(t, verify(broken, token)), name)
	}
	downgrade := standard(key, "m1", now.Add(-time.Hour), data)
	downgrade.Set("X-Gitlab-Token", string(token))
	require.Equal(t, wake.Forbidden, resultOf(t, verify(downgrade, token)), "a plain token does not stand in for a signature that is too old")

	_, err := Read(http.Header{"X-Gitlab-Event": {"Push Hook"}}, data)
	require.EqualError(t, err,
		"neither header webhook-signature nor X-Gitlab-Token: give the webhook the secret of the Fleet's spec.webhook.secretRef")
	plain, err := Read(http.Header{"X-Gitlab-Event": {"Push Hook"}, "X-Gitlab-Token": {secret[:4]}}, data)
	require.NoError(t, err)
	require.EqualError(t, plain.Verify([]byte(secret), now), "header X-Gitlab-Token is not the Fleet's secret")
}

func TestOneFleetsProviderIsNotAnothers(t *testing.T) {
	require.Equal(t, fleetv1.WebhookProvider("gitea"), gitea)
	require.Equal(t, []fleetv1.WebhookProvider{"github", "gitlab", "bitbucket", "azuredevops", "generic"}, []fleetv1.WebhookProvider{github, gitLab, bitbucket, azure, generic})
}
