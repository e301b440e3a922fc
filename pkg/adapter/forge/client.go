package forge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxAnswer is the longest answer that is read, in bytes.
const maxAnswer = 16 << 20

// client makes the calls of the providers that have no library: one request, one JSON answer, errors of one kind.
type client struct {
	kind string // in texts: "github"
	cfg  Config
	http *http.Client
	// sign puts the credential into a request; token is empty for basic authentication.
	sign func(req *http.Request, token string)
	// explain may change the class and the text of a refusal. Optional.
	explain func(perr *ProviderError, resp *http.Response)
}

// request is one call.
type request struct {
	// op is for texts: "post status"; name for metrics: "status_set".
	op, name     string
	method, path string // below the base URL; path segments are escaped already
	query        url.Values
	in, out      any
	header       map[string]string
}

func newClient(kind string, cfg Config) (*client, error) {
	cfg, err := cfg.check(kind)
	if err != nil {
		return nil, err
	}
	transport, err := cfg.transport(kind)
	if err != nil {
		return nil, err
	}
	return &client{kind: kind, cfg: cfg, http: &http.Client{Transport: transport, CheckRedirect: sameHost, Timeout: callTimeout}, sign: bearer(cfg)}, nil
}

// bearer signs with HTTP basic authentication where a password is given, else with a bearer token.
func bearer(cfg Config) func(*http.Request, string) {
	return func(req *http.Request, token string) {
		if token == "" {
			req.SetBasicAuth(cfg.Credential.Username, cfg.Credential.Password)
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

// notFound tells a commit that the forge does not have from a repository that it does not show.
func (c *client) notFound(perr *ProviderError) {
	if strings.Contains(strings.ToLower(perr.answer), "commit") {
		perr.Class = UnknownCommit
		return
	}
	perr.Message = fmt.Sprintf("repository %s/%s not found, or the token may not see it: %s", c.cfg.Owner, c.cfg.Repository, perr.answer)
}

// basicForm is how name and password are sent; a server may echo it.
func basicForm(name, password string) string {
	if password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name + ":" + password))
}

// do makes the call and decodes the answer. Its error is a [*ProviderError].
func (c *client) do(ctx context.Context, q request) (http.Header, error) {
	op := q.op + " (" + c.kind + ")"
	token, err := c.cfg.Credential.token(ctx)
	hide := redactor{token, c.cfg.Credential.Password, basicForm("", token), basicForm(c.cfg.Credential.Username, c.cfg.Credential.Password)}
	if err != nil {
		return nil, hide.fail(Retry, op, fmt.Errorf("get token: %w", err))
	}
	req, err := c.build(ctx, q)
	if err != nil {
		return nil, hide.fail(Permanent, op, err)
	}
	c.sign(req, token)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, hide.fail(Retry, op, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, hide.fail(Retry, op, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 || resp.StatusCode == http.StatusNonAuthoritativeInfo {
		return resp.Header, c.refusal(hide, op, resp, body)
	}
	if q.out == nil || len(body) == 0 {
		return resp.Header, nil
	}
	if err := json.Unmarshal(body, q.out); err != nil {
		return nil, hide.fail(Retry, op, fmt.Errorf("read answer (%s): %w", resp.Header.Get("Content-Type"), err))
	}
	return resp.Header, nil
}

func (c *client) build(ctx context.Context, q request) (*http.Request, error) {
	address := c.cfg.URL + q.path
	if strings.HasPrefix(q.path, "https://") || strings.HasPrefix(q.path, "http://") {
		address = q.path
	}
	if len(q.query) > 0 {
		address += "?" + q.query.Encode()
	}
	var body io.Reader
	if q.in != nil {
		data, err := json.Marshal(q.in)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(withOp(ctx, q.name), q.method, address, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "fleetwright")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.header {
		req.Header.Set(name, value)
	}
	return req, nil
}

// refusal describes an answer that is not a success.
func (c *client) refusal(hide redactor, op string, resp *http.Response, body []byte) *ProviderError {
	perr := hide.httpFailure(op, resp, c.cfg.Now())
	perr.code, perr.answer = resp.StatusCode, hide.text(answerText(body))
	if perr.answer != "" {
		perr.Message += ": " + perr.answer
	}
	if c.explain != nil {
		c.explain(perr, resp)
	}
	if perr.code == http.StatusUnauthorized && c.cfg.Credential.Drop != nil {
		c.cfg.Credential.Drop()
		perr.Class = Retry // with a new one
	}
	return perr
}

// codeOf is the status code of the answer behind an error; 0 if there was none.
func codeOf(err error) int {
	var perr *ProviderError
	if errors.As(err, &perr) {
		return perr.code
	}
	return 0
}

// answerText is what a forge says in the body of a refusal. Pages for browsers say nothing.
func answerText(body []byte) string {
	var answer any
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return strings.Join(sentences(answer), "; ")
}

// sentences collects the texts below the keys under which forges put them.
func sentences(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, sentences(e)...)
		}
		return out
	case map[string]any:
		var out []string
		for _, key := range []string{"message", "error", "errors", "name", "base", "detail", "fields"} {
			if e, ok := v[key]; ok {
				texts := sentences(e)
				if key == "name" || key == "base" { // GitLab: which field is wrong
					texts = []string{key + " " + strings.Join(texts, ", ")}
				}
				out = append(out, texts...)
			}
		}
		return out
	}
	return nil
}

// pages walks a list: each calls load with a page number from 1 until it says that there is no more, at most limit times.
func pages(limit int, load func(page int) (more bool, err error)) error {
	for page := 1; page <= limit; page++ {
		more, err := load(page)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// escaped joins path segments, each of them escaped.
func escaped(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}
