package cluster

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1 "github.com/fleetwright/fleetwright/pkg/apis/fleet/v1alpha1"
	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/desired"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Paths of the package and agent contract (NVIDIA's names, so that its packages run unchanged). copyRoot and logRoot
// are on the host, the others in the containers.
const (
	copyRoot     = "/var/lib/skyhook"
	logRoot      = "/var/log/skyhook"
	hostMount    = "/root"
	packageDir   = "/skyhook-package"
	hostVolume   = "root-mount"
	configVolume = "package-config"
	metaVolume   = "node-metadata"
	initSuffix   = "init"
)

// copyCommand copies the package from its image to the host.
const copyCommand = `mkdir -p "/root/$SKYHOOK_DIR" && cp -r /skyhook-package/* "/root/$SKYHOOK_DIR"`

// podSpec binds the pod by affinity, not by nodeName: a pod that does not fit then waits, it does not fail. It asks for
// nothing and never preempts unless the package says otherwise, so that no training pod gives way to it.
func podSpec(spec plan.ExecutionSpec, node *corev1.Node, s JobSettings) corev1.PodSpec {
	automount := false
	grace := gracePeriod(spec)
	out := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, HostPID: true, HostNetwork: true,
		PriorityClassName: fleetv1.PriorityClassName, AutomountServiceAccountToken: &automount,
		ServiceAccountName: s.ServiceAccount, TerminationGracePeriodSeconds: grace,
		Affinity: onNode(spec.Node), Tolerations: tolerations(spec, s),
		Volumes: []corev1.Volume{hostRoot(s)},
	}
	for _, name := range s.ImagePullSecrets {
		out.ImagePullSecrets = append(out.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if spec.Phase == plan.PhaseInterrupt {
		out.InitContainers = []corev1.Container{interruptStep(spec, node, s)}
		out.Containers = []corev1.Container{doneStep(spec.InterruptPackage)}
		guardInterrupt(&out, spec, s)
		return out
	}
	out.Volumes = append(out.Volumes, packageVolumes(spec)...)
	out.InitContainers = packageSteps(spec, node, s)
	out.Containers = []corev1.Container{doneStep(spec.Definition)}
	return out
}

func gracePeriod(spec plan.ExecutionSpec) *int64 {
	if spec.Definition.GracefulShutdown == nil {
		return nil
	}
	return wholeSeconds(*spec.Definition.GracefulShutdown)
}

func onNode(name string) *corev1.Affinity {
	term := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
	}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		},
	}}
}

// tolerations are those of a DaemonSet's pods, the runtime-required taints (the one before the rename too), and the
// NodeWright's own.
func tolerations(spec plan.ExecutionSpec, s JobSettings) []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{
		corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable,
		corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
		corev1.TaintNodeNetworkUnavailable,
	} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	taint := s.RuntimeRequiredTaint
	if taint.Key == "" {
		taint = corev1.Taint{Key: nwv1.RuntimeRequiredTaintKey, Value: nwv1.RuntimeRequiredTaintValue}
	}
	out = append(out,
		corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect},
		corev1.Toleration{
			Key: nwv1.LegacyGroup, Operator: corev1.TolerationOpEqual, Value: nwv1.RuntimeRequiredTaintValue,
		})
	return append(out, spec.Tolerations...)
}

func hostRoot(s JobSettings) corev1.Volume {
	root := s.HostRoot
	if root == "" {
		root = "/"
	}
	return corev1.Volume{Name: hostVolume, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: root},
	}}
}

func packageVolumes(spec plan.ExecutionSpec) []corev1.Volume {
	items := make([]corev1.DownwardAPIVolumeFile, 0, len(metadataFiles))
	for _, f := range metadataFiles {
		items = append(items, corev1.DownwardAPIVolumeFile{Path: f.name, FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: "metadata.annotations['" + f.annotation + "']",
		}})
	}
	out := []corev1.Volume{{Name: metaVolume, VolumeSource: corev1.VolumeSource{
		DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items},
	}}}
	if len(spec.Definition.ConfigMap) > 0 {
		out = append(out, corev1.Volume{Name: configVolume, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: configMapName(spec)},
			},
		}})
	}
	return out
}

// packageSteps are the init containers: copy, then each stage and its check.
func packageSteps(spec plan.ExecutionSpec, node *corev1.Node, s JobSettings) []corev1.Container {
	p := spec.Definition
	copyDir := copyDirOf(spec, p)
	first := step(p, p.Name+"-"+initSuffix, p.Reference())
	first.ImagePullPolicy = corev1.PullAlways
	first.Command = []string{"/bin/sh", "-c", copyCommand}
	first.Env = []corev1.EnvVar{{Name: "SKYHOOK_DIR", Value: copyDir}}
	first.VolumeMounts = append(first.VolumeMounts, packageMounts(p)...)
	out := []corev1.Container{first}
	checkOnly := spec.Phase.OnlyChecks()
	for _, stage := range spec.Stages {
		for _, mode := range []struct{ suffix, arg string }{{"", ""}, {checkSuffix, "-check"}} {
			if checkOnly && mode.suffix == "" {
				continue
			}
			c := step(p, p.Name+"-"+string(stage)+mode.suffix, agentImage(p, s))
			c.Args = []string{string(stage) + mode.arg, hostMount, copyDir}
			c.Env = append(append([]corev1.EnvVar(nil), p.Env...), agentEnv(spec, p, node)...)
			out = append(out, c)
		}
	}
	return out
}

// packageMounts are one read-only file each, so that what the image brings beside them stays visible.
func packageMounts(p desired.Package) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, key := range slices.Sorted(maps.Keys(p.ConfigMap)) {
		out = append(out, corev1.VolumeMount{
			Name: configVolume, MountPath: path.Join(packageDir, "configmaps", key), SubPath: key, ReadOnly: true,
		})
	}
	for _, f := range metadataFiles {
		out = append(out, corev1.VolumeMount{
			Name: metaVolume, MountPath: path.Join(packageDir, metaVolume, f.name), SubPath: f.name, ReadOnly: true,
		})
	}
	return out
}

func interruptStep(spec plan.ExecutionSpec, node *corev1.Node, s JobSettings) corev1.Container {
	p := spec.InterruptPackage
	c := step(desired.Package{}, interruptContainer, agentImage(p, s))
	c.Args = []string{interruptContainer, hostMount, copyDirOf(spec, p), interruptArgument(spec)}
	c.Env = agentEnv(spec, p, node)
	return c
}

// doneStep ends the pod with success once every step before it has succeeded.
func doneStep(p desired.Package) corev1.Container {
	return corev1.Container{
		Name: "done", Image: p.Reference(), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/bin/sh", "-c", "exit 0"},
	}
}

// step is a privileged container that sees the host's root. Its last log lines become the termination message.
func step(p desired.Package, name, image string) corev1.Container {
	privileged, root := true, int64(0)
	propagation := corev1.MountPropagationHostToContainer
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Resources: resources(p.Resources),
		SecurityContext:          &corev1.SecurityContext{Privileged: &privileged, RunAsUser: &root},
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts: []corev1.VolumeMount{{
			Name: hostVolume, MountPath: hostMount, MountPropagation: &propagation,
		}},
	}
}

func resources(r *nwv1.ResourceRequirements) corev1.ResourceRequirements {
	if r == nil || r.CPURequest.IsZero() {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: r.CPURequest, corev1.ResourceMemory: r.MemoryRequest},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: r.CPULimit, corev1.ResourceMemory: r.MemoryLimit},
	}
}

func agentImage(p desired.Package, s JobSettings) string {
	if p.AgentImage != "" {
		return p.AgentImage
	}
	return s.AgentImage
}

// copyDirOf is where the package lies on the host. The numeric slot, NVIDIA's generation, is the round: an unrelated
// edit of the NodeWright changes nothing on the host.
func copyDirOf(spec plan.ExecutionSpec, p desired.Package) string {
	return path.Join(copyRoot, spec.NodeWright,
		fmt.Sprintf("%s-%s-%s-%d", p.Name, p.Version, spec.NodeWrightUID, spec.Round))
}

// agentEnv comes after the package's own environment, so that it wins.
func agentEnv(spec plan.ExecutionSpec, p desired.Package, node *corev1.Node) []corev1.EnvVar {
	id := fmt.Sprintf("%s-%s-%d_%s_%s", spec.NodeWright, spec.NodeWrightUID, spec.Round, p.Name, p.Version)
	out := []corev1.EnvVar{
		{Name: "SKYHOOK_LOG_DIR", Value: path.Join(logRoot, spec.NodeWright)},
		{Name: "SKYHOOK_ROOT_DIR", Value: path.Join(copyRoot, spec.NodeWright)},
		{Name: "COPY_RESOLV", Value: "false"},
		{Name: "SKYHOOK_RESOURCE_ID", Value: id},
		{Name: "SKYHOOK_NODE_ORDER", Value: strconv.Itoa(int(spec.Order))},
		{Name: "FLEETWRIGHT_MACHINE_ID", Value: node.Status.NodeInfo.MachineID},
		{Name: "FLEETWRIGHT_ROUND", Value: strconv.FormatInt(spec.Round, 10)},
	}
	if grace := gracePeriod(spec); grace != nil {
		out = append(out, corev1.EnvVar{Name: "FLEETWRIGHT_GRACE", Value: strconv.FormatInt(*grace, 10)})
	}
	if spec.Phase.OnlyChecks() {
		out = append(out, corev1.EnvVar{Name: "FLEETWRIGHT_CHECK_FIRST", Value: "true"})
	}
	if spec.Fresh {
		out = append(out, corev1.EnvVar{Name: "FLEETWRIGHT_FRESH", Value: "true"})
	}
	return out
}

// agentInterrupts are the agent's names of the interrupt types.
var agentInterrupts = map[nwv1.InterruptType]string{
	nwv1.InterruptReboot: "node_restart", nwv1.InterruptService: "service_restart",
	nwv1.InterruptNoop: "no_op", nwv1.InterruptRestartAllServices: "restart_all_services",
}

// interruptArgument is base64 of {"type","services"}; only a service interrupt names services.
func interruptArgument(spec plan.ExecutionSpec) string {
	argument := struct {
		Type     string   `json:"type"`
		Services []string `json:"services,omitempty"`
	}{Type: agentInterrupts[spec.Interrupt.Type]}
	if spec.Interrupt.Type == nwv1.InterruptService {
		argument.Services = spec.Interrupt.Services
	}
	data, err := json.Marshal(argument)
	if err != nil { // plain data always marshals
		panic(fmt.Sprintf("write interrupt: %v", err))
	}
	return base64.StdEncoding.EncodeToString(data)
}
