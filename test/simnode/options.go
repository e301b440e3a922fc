package simnode

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// UserAgent is how a Fleet's requests are named in the audit log.
const UserAgent = "fleetwright-simnode"

// Options are the behaviour of all nodes of a Fleet. The zero value works: every container ends well after 20 ms.
type Options struct {
	// Clock times containers, deadlines, grace and reboots. Default: the real clock.
	Clock clock.WithTicker
	// Duration is how long a container runs if its Result does not say. Default 20 ms.
	Duration time.Duration
	// Relist is how often a kubelet looks at a pod's containers: what changes between two looks is reported at once, which
	// saves writes. Default 0: every change is reported by itself.
	Relist time.Duration
	// Outcome decides how a container ends. It is asked once as the container starts, again when it restarts, and again
	// and again while it answers with an ImagePullError. It must be safe for concurrent use. Default: Result{}.
	Outcome func(pod *corev1.Pod, container string) Result
	// Admit is the kubelet's admission, asked as a pod begins: with a reason, such as OutOfcpu, the pod fails before any
	// container exists. It must be safe for concurrent use. Default: every pod is admitted.
	Admit func(pod *corev1.Pod) Refusal
	// Termination is how long a pod takes to end after it was deleted; the pod's grace period bounds it. Default: no time.
	Termination func(pod *corev1.Pod) time.Duration
	// RestartBackoff is the wait before a container restarts or an image is pulled again. Default: 5 times Duration.
	RestartBackoff time.Duration
	// RebootDuration is how long a rebooting node is away. Default 50 ms.
	RebootDuration time.Duration
	// Heartbeat is the interval of lease renewals. Default 0: none, which is right where no node-lifecycle controller runs.
	Heartbeat time.Duration
	// Workers is how many pods are worked on at once. Default 8.
	Workers int
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Duration == 0 {
		o.Duration = 20 * time.Millisecond
	}
	if o.Outcome == nil {
		o.Outcome = func(*corev1.Pod, string) Result { return Result{} }
	}
	if o.Admit == nil {
		o.Admit = func(*corev1.Pod) Refusal { return Refusal{} }
	}
	if o.Termination == nil {
		o.Termination = func(*corev1.Pod) time.Duration { return 0 }
	}
	if o.RestartBackoff == 0 {
		o.RestartBackoff = 5 * o.Duration
	}
	if o.RebootDuration == 0 {
		o.RebootDuration = 50 * time.Millisecond
	}
	if o.Workers == 0 {
		o.Workers = 8
	}
	return o
}

// Refusal is why a kubelet does not admit a pod; the zero value admits it.
type Refusal struct{ Reason, Message string }

// Result is what becomes of one container. The zero value: it runs for Options.Duration and exits with 0. For pods
// that no Job owns only ImagePullError and NotReady count.
type Result struct {
	// Exit is the exit code.
	Exit int32
	// Log is what the container printed. Its tail becomes the termination message exactly where a kubelet would put it
	// there: the exit code is not 0 and the container has terminationMessagePolicy FallbackToLogsOnError.
	Log string
	// Message is what the container wrote to its termination message file; it goes before Log.
	Message string
	// Duration is the run time. 0: Options.Duration.
	Duration time.Duration
	// Hangs keeps the container running until something else ends it.
	Hangs bool
	// OOMKilled ends the container with exit code 137 and reason OOMKilled.
	OOMKilled bool
	// ImagePullError keeps the container from starting, with this message, until Outcome answers without it.
	ImagePullError string
	// Reboot restarts the node when the container's time is up.
	Reboot Reboot
	// Evicted has the kubelet evict the whole pod with this message when the container's time is up, as under memory pressure.
	Evicted string
	// NotReady keeps the running container from being ready.
	NotReady bool
}

// Reboot says how a container that restarts its node ends.
type Reboot int

const (
	// NoReboot is the ordinary case.
	NoReboot Reboot = iota
	// RebootKills takes the node down while the container runs: nobody sees its exit code. After the reboot the kubelet
	// reports exit code 255, reason Unknown.
	RebootKills
	// RebootAfterExit reports the container's end first, as when shutdown is only scheduled.
	RebootAfterExit
	// RebootForEver is RebootKills on a machine that does not come back, until PowerOn.
	RebootForEver
)

// NodeOptions are the properties of one node.
type NodeOptions struct {
	Annotations map[string]string
	Taints      []corev1.Taint
	// Capacity replaces the default: 8 CPUs, 32 GiB of memory, 110 pods.
	Capacity corev1.ResourceList
	// OSImage and KernelVersion default to "Simulated Linux 1" and "6.1.0-sim".
	OSImage, KernelVersion string
	// NotReady leaves the node as one that has just been registered; SetReady turns it ready.
	NotReady bool
}
