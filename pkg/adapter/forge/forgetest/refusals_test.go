package forgetest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fleetwright/fleetwright/pkg/adapter/forge"
	"github.com/fleetwright/fleetwright/pkg/adapter/forge/forgetest"
)

// raw is a request as a careless client would send it.
type raw struct {
	method, path, body string
	code               int
}

// send asks with the right credential and headers, so that what is refused is refused for its content.
func send(t *testing.T, s *forgetest.Server, kind forge.Kind, r raw) (int, string) {
	req, err := http.NewRequestWithContext(t.Context(), r.method, s.Config().URL+r.path, strings.NewReader(r.body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Atlassian-Token", "no-check")
	switch kind {
	case forge.KindAzureDevOps:
		req.SetBasicAuth("", forgetest.Token)
	case forge.KindGitea:
		req.Header.Set("Authorization", "token "+forgetest.Token)
	default:
		req.Header.Set("Authorization", "Bearer "+forgetest.Token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestServersRefuseWhatForgesRefuse: SHA stands for a commit that is there, LONG for 300 characters.
func TestServersRefuseWhatForgesRefuse(t *testing.T) {
	const hub, lab, cloud = "/repos/acme/fleet", "/projects/acme%2Ffleet", "/repositories/acme/fleet"
	const dc, azure = "/rest/api/latest/projects/acme/repos/fleet", "/acme/_apis/git/repositories/fleet"
	for kind, all := range map[forge.Kind][]raw{
		forge.KindGitHub: {
			{"POST", hub + "/statuses/SHA", `{"state":"success","context":"a"}`, 201},
			{"POST", hub + "/statuses/SHA", `{"state":"running","context":"a"}`, 422},
			{"POST", hub + "/statuses/SHA", `{"state":"success","context":"a","description":"LONG"}`, 422},
			{"POST", hub + "/statuses/SHA", `{"state":"success","context":"LONG"}`, 422},
			{"POST", hub + "/statuses/SHA", `{"state":"success","context":"a","target_url":""}`, 422},
			{"POST", hub + "/statuses/SHA", `{"state":"success","name":"a"}`, 400},
			{"POST", hub + "/statuses/" + strings.Repeat("f", 40), `{"state":"success"}`, 422},
			{"PUT", hub + "/statuses/SHA", `{}`, 405},
			{"POST", hub + "/status/SHA", `{}`, 404},
			{"POST", hub + "/check-runs", `{"name":"a","head_sha":"SHA","status":"completed"}`, 422},
			{"POST", hub + "/check-runs", `{"name":"a","head_sha":"SHA","status":"in_progress","output":{"title":"a"}}`, 422},
		},
		forge.KindGitLab: {
			{"POST", lab + "/statuses/SHA", `{"state":"running","name":"a"}`, 201},
			{"POST", lab + "/statuses/SHA", `{"state":"running","name":"a"}`, 400},
			{"POST", lab + "/statuses/SHA", `{"state":"pending","name":"a"}`, 400},
			{"POST", lab + "/statuses/SHA", `{"state":"success","name":"a"}`, 201},
			{"POST", lab + "/statuses/SHA", `{"state":"failure","name":"a"}`, 400},
			{"POST", lab + "/statuses/SHA", `{"state":"success","name":"b","description":"LONG"}`, 400},
			{"POST", lab + "/statuses/SHA", `{"state":"success","name":"b","target_url":"https://LONG"}`, 400},
			{"POST", lab + "/statuses/SHA", `{"state":"success","name":"b","pipeline_id":999}`, 404},
			{"POST", "/projects/acme/fleet/statuses/SHA", `{}`, 404},
		},
		forge.KindGitea: {
			{"POST", "/api/v1" + hub + "/statuses/SHA", `{"state":"success","context":"a"}`, 201},
			{"POST", "/api/v1" + hub + "/statuses/" + strings.Repeat("f", 40), `{"state":"success","context":"a"}`, 500},
		},
		forge.KindBitbucketCloud: {
			{"POST", cloud + "/commit/SHA/statuses/build", `{"key":"a","state":"SUCCESSFUL","url":"https://x.example.com"}`, 201},
			{"POST", cloud + "/commit/SHA/statuses/build", `{"key":"a","state":"SUCCESSFUL"}`, 400},
			{"POST", cloud + "/commit/SHA/statuses/build", `{"key":"a","state":"CANCELLED","url":"https://x.example.com"}`, 400},
			{"POST", cloud + "/commit/SHA/statuses/build", `{"key":"LONG","state":"FAILED","url":"https://x.example.com"}`, 400},
			{"GET", cloud + "/pullrequests?state=OPEN&pagelen=100&q=destination.branch.name%3D%22main%22", "", 400},
			{"POST", cloud + "/commit/SHA/reports/x/annotations", `[]`, 404},
		},
		forge.KindBitbucketDataCenter: {
			{"POST", dc + "/commits/SHA/builds", `{"key":"a","state":"CANCELLED","url":"https://x.example.com"}`, 204},
			{"POST", dc + "/commits/SHA/builds", `{"key":"a","state":"STOPPED","url":"https://x.example.com"}`, 400},
			{"POST", dc + "/commits/SHA/builds", `{"key":"a","state":"FAILED"}`, 400},
			{"POST", dc + "/commits/SHA/builds", `{"key":"a","state":"FAILED","url":"https://x.example.com","ref":"main"}`, 400},
		},
		forge.KindAzureDevOps: {
			{"POST", azure + "/commits/SHA/statuses?api-version=7.1", `{"state":"succeeded","context":{"name":"a"}}`, 201},
			{"POST", azure + "/commits/SHA/statuses", `{"state":"succeeded","context":{"name":"a"}}`, 400},
			{"POST", azure + "/commits/SHA/statuses?api-version=7.1", `{"state":"success","context":{"name":"a"}}`, 400},
			{"POST", azure + "/commits/SHA/statuses?api-version=7.1", `{"state":"succeeded","context":{"genre":"a"}}`, 400},
		},
	} {
		t.Run(string(kind), func(t *testing.T) {
			server := forgetest.NewServer(t, kind)
			fill := strings.NewReplacer("SHA", server.AddCommit(), "LONG", strings.Repeat("x", 300))
			for i, r := range all {
				r.path, r.body = fill.Replace(r.path), fill.Replace(r.body)
				code, answer := send(t, server, kind, r)
				require.Equal(t, r.code, code, fmt.Sprintf("request %d: %s %s %s: %s", i, r.method, r.path, r.body, answer))
			}
		})
	}
}

func TestDataCenterWantsTheHeaderAgainstForgedRequests(t *testing.T) {
	server := forgetest.NewServer(t, forge.KindBitbucketDataCenter)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Config().URL+"/rest/api/latest/projects/acme/repos/fleet/commits/x/builds", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+forgetest.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}
