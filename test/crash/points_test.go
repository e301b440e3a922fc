package crash

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/test/cluster"
)

// fault is what happens to a write.
type fault string

const (
	killBefore fault = "before"   // the process dies, and the write with it
	killAfter  fault = "after"    // the write takes effect, and the process dies without the answer
	conflict   fault = "conflict" // answered by 409, without effect
	throttled  fault = "throttled"
	broken     fault = "broken"  // answered by 500, without effect
	timeout    fault = "timeout" // takes effect, and the answer is lost
	// outage is timeout, and then the API server does not answer for a while; it is no fault of every write.
	outage fault = "outage"
	// restart kills the API server when the write has taken effect, and starts it again.
	restart fault = "restart"
)

var faults = []fault{killBefore, killAfter, conflict, throttled, broken, timeout}

func (f fault) kills() bool { return f == killBefore || f == killAfter }

// lands says whether the write takes effect all the same.
func (f fault) lands() bool { return f == killAfter || f == timeout || f == outage }

// point is one write of the reconciler, and what happens to it.
type point struct {
	fault fault
	write string // verb:resource/name
	nth   int    // from 1
}

func (p point) String() string {
	if p.fault == "" {
		return "undisturbed"
	}
	return fmt.Sprintf("%s:%s:%d", p.fault, p.write, p.nth)
}

func parsePoint(text string) (point, error) {
	parts := strings.Split(text, ":")
	if len(parts) >= 4 {
		nth, err := strconv.Atoi(parts[len(parts)-1])
		if err == nil {
			return point{fault(parts[0]), strings.Join(parts[1:len(parts)-1], ":"), nth}, nil
		}
	}
	return point{}, fmt.Errorf("point %q: want <%v>:<verb>:<resource>/<name>:<number>", text, faults)
}

// writes counts the reconciler's writes over one run of the story, over its restarts too.
type writes struct {
	mu      sync.Mutex
	targets []point
	met     []point
	refused int // evictions that a budget refused
	count   map[string]int
	jobs    map[string]string // what a Job is for, by its name
	order   []point           // without faults
}

func newWrites(targets ...point) *writes {
	return &writes{targets: targets, count: map[string]int{}, jobs: map[string]string{}}
}

// next counts a write and says what happens to it; nothing, if it is none of those that are meant.
func (w *writes) next(e cluster.AuditEvent, body []byte) fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := e.Verb + ":" + w.name(e, body)
	w.count[name]++
	p := point{write: name, nth: w.count[name]}
	w.order = append(w.order, p)
	for _, target := range w.targets {
		if target.write == p.write && target.nth == p.nth {
			w.met = append(w.met, target)
			return target.fault
		}
	}
	return ""
}

// ofUID is the part of a name that another run does not have.
var ofUID = regexp.MustCompile(`^fw-config-.*`)

// name says which object a write is for, in words that hold in every run.
func (w *writes) name(e cluster.AuditEvent, body []byte) string {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	object := metav1.PartialObjectMetadata{}
	name := e.Name
	if e.Verb == "create" && name == "" && json.Unmarshal(body, &object) == nil {
		name = object.Name
	}
	if e.Resource == "jobs" {
		if e.Verb == "create" {
			w.jobs[name] = execution(&object)
		}
		name = w.jobs[name]
	}
	if e.Resource == "nodes" {
		name += cordonIn(body)
	}
	if ofUID.MatchString(name) {
		name = "config-of-" + object.Labels[fleetv1.PackageNameLabel]
	}
	return resource + "/" + name
}

// cordonIn says what a patch of a node does to its cordon.
func cordonIn(patch []byte) string {
	switch text := string(patch); {
	case strings.Contains(text, `{"op":"add","path":"/spec/unschedulable","value":true}`):
		return "+cordon"
	case strings.Contains(text, `{"op":"remove","path":"/spec/unschedulable"}`):
		return "+uncordon"
	}
	return ""
}

// execution names a Job, or one of its pods, by what it is for.
func execution(o metav1.Object) string {
	l := o.GetLabels()
	subject := l[fleetv1.PackageNameLabel]
	if l[nwv1.InterruptLabel] != "" {
		subject = "wave" + l[fleetv1.Group+"/wave"]
	}
	return fmt.Sprintf("%s.%s.%s.r%s.a%s@%s", l[nwv1.NameLabel], subject, l[fleetv1.PhaseLabel], l[fleetv1.RoundLabel],
		l[fleetv1.AttemptLabel], o.GetAnnotations()[fleetv1.NodeAnnotation])
}

func (w *writes) refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused++
}

func (w *writes) refusals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// missed are the points that did not come.
func (w *writes) missed() []point {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.targets), func(p point) bool { return slices.Contains(w.met, p) })
}

// points are all faults of all writes that were seen.
func (w *writes) points() []point {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []point
	for _, f := range faults {
		for _, p := range w.order {
			out = append(out, point{f, p.write, p.nth})
		}
	}
	return out
}
