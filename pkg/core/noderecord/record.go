package noderecord

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

// Outcome is how a turn ended. The empty outcome is an open turn (or no turn yet, when Batch is 0).
type Outcome string

const (
	// Open is a turn that is under way.
	Open Outcome = ""
	// Succeeded is a turn whose packages are all done, on a node that is Ready and given back.
	Succeeded Outcome = "succeeded"
	// Failed is a turn that ended because a package, an interrupt or the node failed.
	Failed Outcome = "failed"
	// Released is a turn that was taken back before anything ran.
	Released Outcome = "released"
)

// Record is the state of one NodeWright on one node: which turn it had or has, and what is on the host.
type Record struct {
	// NodeWright and Node are the UIDs of the objects that the record belongs to. A record with another node UID is
	// not this node's; one with another NodeWright UID keeps its packages and nothing else.
	NodeWright types.UID `json:"nw"`
	Node       types.UID `json:"node"`

	// Round, Batch, Compartment and Order are the admission: batch from 1 within the round, order from 0.
	Round       int64  `json:"round"`
	Batch       int32  `json:"batch"`
	Compartment string `json:"compartment,omitempty"`
	Order       int32  `json:"order"`

	// Started says that an execution of this turn may exist: the turn can no longer be released.
	Started bool `json:"started,omitempty"`
	// Disruptive says that the turn was admitted with an interrupt to come, so that it holds the cluster budget even
	// before its cordon is seen.
	Disruptive bool `json:"disruptive,omitempty"`
	// Outcome is the last write of a turn.
	Outcome Outcome `json:"outcome,omitempty"`
	// AdmittedAt is when the turn began.
	AdmittedAt *time.Time `json:"admittedAt,omitempty"`
	// EndedAt is when the turn ended; ReadyAt when all its work was done (settling counts from there).
	EndedAt *time.Time `json:"endedAt,omitempty"`
	ReadyAt *time.Time `json:"readyAt,omitempty"`
	// VerifiedAt is when the newest periodic check began (`verifyInterval`).
	VerifiedAt *time.Time `json:"verifiedAt,omitempty"`
	// WaitSince is since when the node waits for protected pods, where that wait is bounded; DrainSince since when it is
	// drained, with no protected pod on it. Both are nil on a node that is empty.
	WaitSince  *time.Time `json:"waitSince,omitempty"`
	DrainSince *time.Time `json:"drainSince,omitempty"`
	// Healed says that what made the turn fail has mended itself since: the node may be admitted again.
	Healed bool `json:"healed,omitempty"`
	// Failure is the newest failure of this turn; when the turn has failed, it says why.
	Failure *Failure `json:"failure,omitempty"`
	// FirstFailure is the first failure of this turn where that is another one: the later ones are often its consequences.
	FirstFailure *Failure `json:"firstFailure,omitempty"`
	// Retried is the token of the last `retry` annotation that was handled.
	Retried string `json:"retried,omitempty"`

	// Asked are the tokens of other verb annotations that were handled, by verb; those on the node itself as `node/<verb>`.
	Asked map[string]string `json:"asked,omitempty"`
	// Reruns counts the turns in which packages ran again because people asked for it.
	Reruns int32 `json:"reruns,omitempty"`

	// Waves counts the interrupts that were requested in this round.
	Waves int32 `json:"waves,omitempty"`
	// Interrupt is the interrupt that was requested and is not proven yet.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Boot is the boot of the node that Packages holds for; empty where nobody asks (`reapplyOnReboot`).
	Boot string `json:"boot,omitempty"`
	// Reboots are the newest reboots that this NodeWright asked for, the oldest first; only while some NodeWright asks for boots.
	Reboots []Reboot `json:"reboots,omitempty"`
	// Packages is what is on the host, by package name.
	Packages map[string]Package `json:"packages,omitempty"`

	// Shared numbers the packages: records of one Reader with the same number have the same ones. 0 says nothing. It is not
	// part of what is written, and a copy whose packages may be changed has none.
	Shared uint32 `json:"-"`
}

// Reboot is a reboot that was asked for, by the boot IDs before and after it.
type Reboot struct {
	From string `json:"from"`
	// To is empty where the request was given up before another boot was seen: whichever comes next is taken for it.
	To string `json:"to,omitempty"`
}

// Failure is why a turn failed, in the words of the failed execution.
type Failure struct {
	Package string     `json:"package,omitempty"`
	Stage   nwv1.Stage `json:"stage,omitempty"`
	// ExitCode of the failed container; 0 where none exited.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Reason is a stable code, see plan.Code.
	Reason string `json:"reason"`
	// Message is one sentence, at most 256 characters.
	Message string `json:"message,omitempty"`
}

// Drift is a host that does not match a package any more.
type Drift struct {
	// Since is when that was first seen.
	Since time.Time `json:"since"`
	// Stage whose check failed, its exit code, and the last of what it said, at most 256 characters.
	Stage    nwv1.Stage `json:"stage,omitempty"`
	ExitCode int32      `json:"exitCode,omitempty"`
	Message  string     `json:"message,omitempty"`
}

// Setback is why the newest attempts did not count: no fault of the package, and nothing to spend its attempts on.
type Setback struct {
	// Reason is a stable code, see plan.Code.
	Reason string `json:"reason"`
	// Message is one sentence, at most 256 characters.
	Message string `json:"message,omitempty"`
	// Count is how many attempts in a row.
	Count int32 `json:"count"`
}

// Interrupt is an interrupt in flight. It is stored before its execution is created.
type Interrupt struct {
	Type     nwv1.InterruptType `json:"type"`
	Services []string           `json:"services,omitempty"`
	// Packages are the packages whose due interrupts this one covers.
	Packages []string `json:"packages"`
	// Wave counts the interrupts of a turn, from 1.
	Wave int32 `json:"wave"`
	// Attempt counts the executions of this interrupt, from 1.
	Attempt int32 `json:"attempt"`
	// Failures counts those that failed.
	Failures int32 `json:"failures,omitempty"`
	// Setback is set while the newest executions did not count.
	Setback *Setback `json:"setback,omitempty"`
	// BootIDBefore is the node's boot ID when the interrupt was requested; a reboot is proven by another one.
	BootIDBefore string `json:"bootIDBefore,omitempty"`
	// At is when the interrupt was requested (this attempt).
	At time.Time `json:"at"`
	// NotBefore is when the next attempt may begin.
	NotBefore *time.Time `json:"notBefore,omitempty"`
}

// Package is one package on the host.
type Package struct {
	// Version, Image and Digest of the newest version that an execution was started for.
	Version string `json:"version,omitempty"`
	Image   string `json:"image,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Snapshot names the immutable copy of the full definition that Version stands for.
	Snapshot string `json:"snapshot,omitempty"`
	// From is the version that was there before Version, until Version is applied; empty for a first install.
	From string `json:"from,omitempty"`
	// Fresh says that the step flags of the package have to be cleared before Version is applied.
	Fresh bool `json:"fresh,omitempty"`

	// Attempted and AttemptedConfig are the hashes that the newest install and config were started with.
	Attempted       string `json:"attempted,omitempty"`
	AttemptedConfig string `json:"attemptedConfig,omitempty"`
	// Applied is the install hash whose apply or upgrade stage succeeded; it is empty from the moment another install
	// starts until that succeeds, so that an older success proves nothing.
	Applied string `json:"applied,omitempty"`
	// Configured is the config hash whose config stage succeeded, empty from the start of another one.
	Configured string `json:"configured,omitempty"`
	// Keys is a short hash of each configMap key that a config stage was last started with.
	Keys map[string]string `json:"keys,omitempty"`

	// DueInstall says that an install was started and the package's interrupt, if it has one, has not run since.
	DueInstall bool `json:"dueInstall,omitempty"`
	// DueKeys are the configMap keys that changed and whose configInterrupts, if any, have not run since.
	DueKeys []string `json:"dueKeys,omitempty"`
	// DueUninstall says that the uninstall is done and the interrupt of the removed package has not run since.
	DueUninstall bool `json:"dueUninstall,omitempty"`
	// Post says that the post-interrupt stage has to run.
	Post bool `json:"post,omitempty"`
	// Checked names the definition whose checks were started before its installation (`skipIfSatisfied`); Satisfied says that
	// they found the wanted state, so that nothing was installed.
	Checked   string `json:"checked,omitempty"`
	Satisfied bool   `json:"satisfied,omitempty"`
	// Drift is what the newest periodic check did not find as it should be; nil: everything was, or none was made.
	Drift *Drift `json:"drift,omitempty"`
	// Removing says that an uninstall was started.
	Removing bool `json:"removing,omitempty"`

	// Running is the phase of the execution that was started and whose end is not recorded yet; empty if none is.
	Running string `json:"running,omitempty"`
	// Stage and State are where the package stands, in NVIDIA's words.
	Stage nwv1.Stage `json:"stage,omitempty"`
	State nwv1.State `json:"state,omitempty"`
	// Attempt counts the executions of this package that were started in this round, from 1.
	Attempt int32 `json:"attempt,omitempty"`
	// Failures counts those of the current phase that failed in this turn.
	Failures int32 `json:"failures,omitempty"`
	// Setback is set while the newest executions did not count.
	Setback *Setback `json:"setback,omitempty"`
	// NotBefore is when the next attempt may begin.
	NotBefore *time.Time `json:"notBefore,omitempty"`
}

// IsOpen reports whether the record holds a turn that has not ended.
func (r Record) IsOpen() bool { return r.Batch > 0 && r.Outcome == Open }

// LastVerified is when the host was last known to be as it should be, as of now: the newest check, or the end of the turn; zero:
// never. What is still to come was written by a process whose clock was wrong, and says nothing.
func (r Record) LastVerified(now time.Time) time.Time {
	var last time.Time
	for _, t := range [...]*time.Time{r.VerifiedAt, r.EndedAt} {
		if t != nil && t.After(last) && !t.After(now) {
			last = *t
		}
	}
	return last
}

// TokenOf is the token of a request that was handled, by its key in Asked; `retry` is the NodeWright's.
func (r Record) TokenOf(key string) string {
	if key == "retry" {
		return r.Retried
	}
	return r.Asked[key]
}

// Reached reports whether the record stands at the admission (round, order) or further. Order numbers grow with every
// admission of a round; batches are numbered by each compartment for itself, and a node may go from one to another.
func (r Record) Reached(round int64, order int32) bool {
	return r.Round > round || r.Round == round && r.Batch > 0 && r.Order >= order
}

// Clone returns a deep copy.
func (r Record) Clone() Record {
	out := r
	out.AdmittedAt, out.EndedAt = clone(r.AdmittedAt), clone(r.EndedAt)
	out.ReadyAt, out.WaitSince, out.DrainSince = clone(r.ReadyAt), clone(r.WaitSince), clone(r.DrainSince)
	out.Failure, out.FirstFailure, out.VerifiedAt = clone(r.Failure), clone(r.FirstFailure), clone(r.VerifiedAt)
	out.Asked, out.Reboots = maps.Clone(r.Asked), slices.Clone(r.Reboots)
	if r.Interrupt != nil {
		i := *r.Interrupt
		i.Services = append([]string(nil), i.Services...)
		i.Packages = append([]string(nil), i.Packages...)
		i.NotBefore, i.Setback = clone(i.NotBefore), clone(i.Setback)
		out.Interrupt = &i
	}
	out.Packages, out.Shared = make(map[string]Package, len(r.Packages)), 0
	for name, p := range r.Packages {
		out.Packages[name] = p.Clone()
	}
	return out
}

// Clone returns a deep copy.
func (p Package) Clone() Package {
	out := p
	out.NotBefore, out.Setback, out.Drift = clone(p.NotBefore), clone(p.Setback), clone(p.Drift)
	out.DueKeys = append([]string(nil), p.DueKeys...)
	if p.Keys != nil {
		out.Keys = make(map[string]string, len(p.Keys))
		for k, v := range p.Keys {
			out.Keys[k] = v
		}
	}
	return out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
