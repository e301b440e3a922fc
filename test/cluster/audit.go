package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// AuditEvent is one finished request, as the API server recorded it.
type AuditEvent struct {
	Verb string // get, list, watch, create, update, patch, delete, deletecollection
	// Group, Resource, Subresource, Namespace and Name say what the request was for; all are empty for paths such as
	// /readyz. Name is empty for a create whose body was not recorded.
	Group, Resource, Subresource, Namespace, Name string
	// User is who RBAC asked about: the impersonated user where there is one.
	User      string
	UserAgent string
	URI       string
	Code      int // HTTP status of the answer; 0 if there was none
	// Unauthorized says that the user lacks the right, as RBAC decided; an admission policy refuses with the same status.
	Unauthorized bool
	// Received and Completed are the server's clock, with microseconds.
	Received, Completed time.Time
	// Request is the body of the request as JSON, where the policy records it: creates, deletions and evictions of
	// pods, Jobs, and writes of nodes. A patch is recorded as the patch.
	Request json.RawMessage
}

// Match says which requests are meant, in the audit log and for a proxy's faults. An empty field matches anything.
type Match struct {
	Verb      string // get, list, watch, create, update, patch, delete, deletecollection
	Resource  string // "pods" (no subresource), "pods/eviction", "nodes/status", "pods/*" (pods and all below)
	Namespace string
	Name      string
	User      string // for a proxy: the impersonated user only, since it does not look into tokens
	UserAgent string // a part of the User-Agent header
}

func (m Match) matches(e AuditEvent) bool {
	return (m.Verb == "" || m.Verb == e.Verb) &&
		m.matchesResource(e) &&
		(m.Namespace == "" || m.Namespace == e.Namespace) &&
		(m.Name == "" || m.Name == e.Name) &&
		(m.User == "" || m.User == e.User) &&
		strings.Contains(e.UserAgent, m.UserAgent)
}

func (m Match) matchesResource(e AuditEvent) bool {
	resource, sub, _ := strings.Cut(m.Resource, "/")
	return m.Resource == "" || resource == e.Resource && (sub == "*" || sub == e.Subresource)
}

// Audit reads the API server's audit log. It is safe for concurrent use.
type Audit struct {
	path   string
	config *rest.Config
	marks  atomic.Int64

	mu     sync.Mutex
	offset int64
	events []AuditEvent
	// watched are the users of NeverRefused, refusals what they may not do and asked for; Forget does not drop them.
	watched  map[string]bool
	refusals []AuditEvent
	excused  []Match
}

// Excuse lets requests be refused on purpose: they are no Refusals.
func (a *Audit) Excuse(m Match) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.excused = append(a.excused, m)
}

// NeverRefused makes requests of a user that RBAC refuses count as refusals, see Refusals. Call it before the user's first request.
func (a *Audit) NeverRefused(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.watched == nil {
		a.watched = map[string]bool{}
	}
	a.watched[user] = true
}

// Refusals are the requests of the users of NeverRefused that RBAC refused, over the whole life of the log.
func (a *Audit) Refusals() ([]AuditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.read()
	return slices.DeleteFunc(slices.Clone(a.refusals), func(e AuditEvent) bool {
		return slices.ContainsFunc(a.excused, func(m Match) bool { return m.matches(e) })
	}), err
}

// Events are the matching requests that are in the log so far, in the order in which they were finished. A request is
// logged when its answer has been sent, so the newest may still be missing: use Sync first to assert that something did
// *not* happen, and polling to assert that it did.
func (a *Audit) Events(m Match) ([]AuditEvent, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		return nil, err
	}
	var found []AuditEvent
	for _, e := range a.events {
		if m.matches(e) {
			found = append(found, e)
		}
	}
	return found, nil
}

// Forget drops what was read so far, so that a suite of many runs does not keep all of them in memory.
func (a *Audit) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = nil
}

// Sync sends a marked request and returns when it is in the log: what was answered before the call is then there too.
func (a *Audit) Sync(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(a.config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	mark := strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(a.marks.Add(1), 10)
	err = client.Discovery().RESTClient().Get().AbsPath("/version").Param("audit-sync", mark).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("send marked request: %w", err)
	}
	for {
		seen, err := a.seen("/version?audit-sync=" + mark)
		if err != nil || seen {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for marked request in the audit log: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (a *Audit) seen(uri string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		return false, err
	}
	for i := len(a.events) - 1; i >= 0; i-- {
		if a.events[i].URI == uri {
			return true, nil
		}
	}
	return false, nil
}

// read takes in the complete lines since the last call.
func (a *Audit) read() error {
	f, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("open audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return fmt.Errorf("read audit log: %w", err)
	}
	r := bufio.NewReaderSize(f, 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil // the rest of a line that is being written is read next time
		}
		if err != nil {
			return fmt.Errorf("read audit log: %w", err)
		}
		a.offset += int64(len(line))
		e, err := parseAuditLine(line)
		if err != nil {
			return err
		}
		a.events = append(a.events, e)
		if e.Unauthorized && a.watched[e.User] {
			a.refusals = append(a.refusals, e)
		}
	}
}

type auditUser struct {
	Username string `json:"username"`
}

// auditLine is the part of audit.k8s.io/v1 Event that we read; k8s.io/apiserver holds the type, which is too much to
// import for it.
type auditLine struct {
	Verb             string     `json:"verb"`
	RequestURI       string     `json:"requestURI"`
	User             auditUser  `json:"user"`
	ImpersonatedUser *auditUser `json:"impersonatedUser"`
	UserAgent        string     `json:"userAgent"`
	ObjectRef        struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations              map[string]string `json:"annotations"`
	RequestObject            json.RawMessage   `json:"requestObject"`
	RequestReceivedTimestamp time.Time         `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time         `json:"stageTimestamp"`
}

func parseAuditLine(line []byte) (AuditEvent, error) {
	var l auditLine
	if err := json.Unmarshal(bytes.TrimSpace(line), &l); err != nil {
		return AuditEvent{}, fmt.Errorf("parse audit log: %w", err)
	}
	e := AuditEvent{
		Verb: l.Verb, Group: l.ObjectRef.APIGroup, Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Namespace: l.ObjectRef.Namespace, Name: l.ObjectRef.Name,
		User: l.User.Username, UserAgent: l.UserAgent, URI: l.RequestURI, Code: l.ResponseStatus.Code,
		Unauthorized: l.Annotations["authorization.k8s.io/decision"] == "forbid",
		Received:     l.RequestReceivedTimestamp, Completed: l.StageTimestamp, Request: l.RequestObject,
	}
	if l.ImpersonatedUser != nil {
		e.User = l.ImpersonatedUser.Username
	}
	return e, nil
}
