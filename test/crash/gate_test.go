package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/test/cluster"
)

// errDead is what a killed process's requests end with: nobody sees it.
var errDead = errors.New("the process is dead")

// gate is the transport of one process. It meets the run's point, and lets nothing through once the process is dead.
type gate struct {
	writes *writes
	kill   func()
	watch  *watchFaults // nil: watches are left alone
	dead   atomic.Bool
	// reachable says whether the API server answers this process for that request. nil: always.
	reachable func(cluster.AuditEvent) bool
	// onOutage and onRestart are what those faults do.
	onOutage, onRestart func()
}

// through sends a request on to next, or not.
func (g *gate) through(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	e := cluster.Describe(r)
	if g.dead.Load() {
		return nil, errDead
	}
	if g.reachable != nil && !g.reachable(e) {
		return nil, errors.New("connection refused")
	}
	if e.Verb == "watch" && g.watch != nil {
		return g.watch.open(next, r, e)
	}
	if !isPoint(e) {
		return next.RoundTrip(r)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if f := g.writes.next(e, body); f != "" {
		return g.meet(next, r, f)
	}
	response, err := next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusTooManyRequests && e.Subresource == "eviction" {
		g.writes.refuse()
	}
	return response, err
}

// isPoint says whether a request is a write that counts; see the package's doc comment.
func isPoint(e cluster.AuditEvent) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.Verb) &&
		e.Resource != "events" && e.Resource != "leases" && e.Resource != ""
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// meet does to the write what the point says.
func (g *gate) meet(next http.RoundTripper, r *http.Request, f fault) (*http.Response, error) {
	if f.kills() {
		g.dead.Store(true) // from here on nothing else lands
		defer g.kill()
	}
	if f.lands() {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	switch f {
	case restart:
		response, err := next.RoundTrip(r)
		g.onRestart()
		return response, err
	case outage:
		g.onOutage()
		return nil, errors.New("connection reset by peer")
	case conflict:
		return answer(r, http.StatusConflict, metav1.StatusReasonConflict), nil
	case throttled:
		return answer(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests), nil
	case broken:
		return answer(r, http.StatusInternalServerError, metav1.StatusReasonInternalError), nil
	case timeout:
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, os.ErrDeadlineExceeded)
	case killBefore, killAfter:
	}
	return nil, errDead
}

// answer is a response of the API server. None names a time after which to ask again: the client would do that by itself.
func answer(r *http.Request, code int, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: "answered by the test with " + strconv.Itoa(code),
	})
	if err != nil {
		panic(err) // plain data always marshals
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)), Request: r,
	}
}
