package cluster

import (
	corev1 "k8s.io/api/core/v1"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
	"github.com/fleetwright/fleetwright/pkg/core/plan"
)

// Contract with the agent, see pkg/agent.NodeCheck.
const (
	nodeCheckVariable = "FLEETWRIGHT_NODE_CHECK"
	credentialsDir    = "/var/run/secrets/fleetwright.dev"
	credentialsVolume = "node-check"
	// tokenSeconds is the shortest life that the API server gives to a token.
	tokenSeconds = 600
)

// nodeCheck is what the agent is told.
type nodeCheck struct {
	Node       string   `json:"node"`
	UID        string   `json:"uid"`
	Protect    string   `json:"protect,omitempty"`
	DaemonSets bool     `json:"daemonSets,omitempty"`
	Namespace  string   `json:"namespace"`
	Label      string   `json:"label"`
	Stay       []string `json:"stay,omitempty"`
}

// guardInterrupt gives an interrupt's agent what it needs to look at its node once more: what to look for, and a token that may
// read nodes and list pods, in a volume of its own. Only the container of the agent mounts it.
func guardInterrupt(pod *corev1.PodSpec, spec plan.ExecutionSpec, s JobSettings) {
	if s.InterruptAccount == "" {
		return
	}
	pod.ServiceAccountName = s.InterruptAccount
	pod.Volumes = append(pod.Volumes, credentials())
	agent := &pod.InitContainers[0]
	agent.Env = append(agent.Env, corev1.EnvVar{Name: nodeCheckVariable, Value: toJSON(checkOf(spec, s))})
	agent.VolumeMounts = append(agent.VolumeMounts, corev1.VolumeMount{Name: credentialsVolume, MountPath: credentialsDir, ReadOnly: true})
}

func checkOf(spec plan.ExecutionSpec, s JobSettings) nodeCheck {
	check := nodeCheck{
		Node: spec.Node, UID: string(spec.NodeUID), DaemonSets: spec.Guard.DaemonSets, Namespace: s.Namespace, Label: nwv1.NameLabel,
	}
	if spec.Guard.Protect != nil {
		check.Protect = spec.Guard.Protect.String()
	}
	for _, uid := range spec.Guard.Stay {
		check.Stay = append(check.Stay, string(uid))
	}
	return check
}

// credentials are a token that is renewed while the pod lives and dies with it, and the CA of the cluster.
func credentials() corev1.Volume {
	seconds, mode := int64(tokenSeconds), int32(0o400)
	return corev1.Volume{Name: credentialsVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
		},
	}}}
}
