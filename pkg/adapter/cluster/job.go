package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// JobSettings are the reconciler's own flags that shape an execution.
type JobSettings struct {
	// Namespace of the Jobs. Required.
	Namespace string
	// AgentImage is the full reference of the agent's image. Required.
	AgentImage string
	// HostRoot is the path on the node that executions see as the host's root. Default "/"; tests set another.
	HostRoot string
	// RuntimeRequiredTaint is tolerated by every execution. Zero: NVIDIA's default.
	RuntimeRequiredTaint corev1.Taint
	// ServiceAccount that other executions run as; no token of it is mounted. Default: the namespace's own.
	ServiceAccount string
	// InterruptAccount is the ServiceAccount of interrupts: with a short-lived token of it, and nothing else, their agent looks at
	// the node and its pods directly before it acts. Default: no token, and no look.
	InterruptAccount string
	// ImagePullSecrets are names of Secrets in the namespace. Default none: no reference is made.
	ImagePullSecrets []string
}

// jobDeadlineSlack is what a Job may take beyond its pod's deadline: waiting for resources, pulling images, a kubelet
// that never acknowledges the pod.
const jobDeadlineSlack = 10 * time.Minute

// JobName is the deterministic name of an execution's Job: readable, at most 63 characters, unique by the whole key.
func JobName(k plan.ExecutionKey) string {
	data, err := json.Marshal(k)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("name execution: %v", err))
	}
	sum := sha256.Sum256(data)
	subject := k.Package
	if k.Phase == plan.PhaseInterrupt {
		subject = k.NodeWright
	}
	return shorten(subject+"-"+string(k.Phase), 42) + "-" + hex.EncodeToString(sum[:])[:20]
}

// shorten cuts a name so that it is still a valid start of one.
func shorten(name string, most int) string {
	name = strings.ToLower(strings.ReplaceAll(name, ".", "-"))
	if len(name) > most {
		name = name[:most]
	}
	return strings.Trim(name, "-")
}

// BuildJob is the Job of an execution on a node. It is a pure function of its arguments. The node gives its machine ID
// and what the package finds below node-metadata.
//
// A finished Job stays until its batch has settled, because verdicts are made from it; Janitor deletes it later. So
// there is no ttlSecondsAfterFinished.
func BuildJob(spec plan.ExecutionSpec, node *corev1.Node, s JobSettings) *batchv1.Job {
	parallel, backoff, falseValue := int32(1), int32(0), false
	replacement := batchv1.Failed
	meta := jobMeta(spec)
	job := &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism: &parallel, Completions: &parallel, BackoffLimit: &backoff,
			PodReplacementPolicy: &replacement, Suspend: &falseValue,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: podAnnotations(spec, node, meta)},
				Spec:       podSpec(spec, node, s),
			},
		},
	}
	job.Namespace = s.Namespace
	if spec.Timeout > 0 {
		job.Spec.ActiveDeadlineSeconds = wholeSeconds(spec.Timeout + jobDeadlineSlack)
		job.Spec.Template.Spec.ActiveDeadlineSeconds = wholeSeconds(spec.Timeout)
	}
	return job
}

func jobMeta(spec plan.ExecutionSpec) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: JobName(spec.ExecutionKey), Labels: jobLabels(spec),
		Annotations: map[string]string{
			fleetv1.NodeWrightAnnotation: spec.NodeWright, fleetv1.NodeAnnotation: spec.Node,
			fleetv1.CompartmentAnnotation: spec.Compartment,
			fleetv1.OrderAnnotation:       strconv.Itoa(int(spec.Order)),
		},
		OwnerReferences: ownersOf(spec),
	}
}

// ownersOf lets the garbage collector end what a deleted NodeWright left, its running executions included; what uninstalls
// for its deletion is not its own.
func ownersOf(spec plan.ExecutionSpec) []metav1.OwnerReference {
	if spec.Unowned {
		return nil
	}
	controller := true
	return []metav1.OwnerReference{{
		APIVersion: nwv1.GroupVersion.String(), Kind: nwv1.KindNodeWright, Name: spec.NodeWright, UID: spec.NodeWrightUID,
		Controller: &controller,
	}}
}

func jobLabels(spec plan.ExecutionSpec) map[string]string {
	p := spec.Definition
	if spec.Phase == plan.PhaseInterrupt {
		p = spec.InterruptPackage
	}
	out := map[string]string{
		fleetv1.ManagedByLabel:     fleetv1.FieldManager,
		fleetv1.NodeWrightUIDLabel: string(spec.NodeWrightUID),
		fleetv1.NodeUIDLabel:       string(spec.NodeUID),
		fleetv1.RoundLabel:         strconv.FormatInt(spec.Round, 10),
		fleetv1.BatchLabel:         strconv.Itoa(int(spec.Batch)),
		fleetv1.AttemptLabel:       strconv.Itoa(int(spec.Attempt)),
		fleetv1.PhaseLabel:         string(spec.Phase),
		nwv1.NameLabel:             spec.NodeWright,
		nwv1.PackageLabel:          nwv1.PackageLabelValue(p.Name, p.Version),
	}
	if spec.Phase == plan.PhaseInterrupt {
		out[nwv1.InterruptLabel] = nwv1.InterruptLabelValue
		out[waveLabel] = strconv.Itoa(int(spec.Wave))
	}
	if spec.Package != "" {
		out[fleetv1.PackageNameLabel] = spec.Package
	}
	return out
}

// wholeSeconds rounds up: a deadline is never shorter than asked for.
func wholeSeconds(d time.Duration) *int64 {
	s := int64((d + time.Second - 1) / time.Second)
	return &s
}
