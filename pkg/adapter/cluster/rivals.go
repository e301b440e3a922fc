package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	nwv1 "github.com/fleetwright/fleetwright/pkg/apis/nodewright/v1alpha1"
)

const (
	// rivalLease is the name of the lease of NVIDIA's operator, in all of its versions and in whichever namespace.
	rivalLease = "3c22c1ae.nvidia.com"
	// rivalSelector selects its Deployment, and those of many other operators.
	rivalSelector = "control-plane=controller-manager"
	// rivalSlack is how much longer than its duration a lease counts as held: clocks differ.
	rivalSlack = time.Minute
	// rivalEvery is how long an answer holds.
	rivalEvery = 30 * time.Second
)

// rivalEnv are variables that NVIDIA's chart sets on its operator in all versions: a mirrored image has any name.
var rivalEnv = []string{"RUNTIME_REQUIRED_TAINT", "COPY_DIR_ROOT"}

// Rivals looks for NVIDIA's operator, which acts on the same objects and nodes: only one may. It is safe for concurrent
// use.
type Rivals struct {
	client kubernetes.Interface
	now    func() time.Time

	mu     sync.Mutex
	asked  time.Time
	answer string
}

// NewRivals returns the check. It asks the API server at most twice a minute.
func NewRivals(client kubernetes.Interface, now func() time.Time) *Rivals {
	return &Rivals{client: client, now: now}
}

// Active says, in one sentence, by what NVIDIA's operator is seen to be active; empty if it is not.
func (r *Rivals) Active(ctx context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if !r.asked.IsZero() && now.Sub(r.asked) < rivalEvery {
		return r.answer, nil
	}
	for _, look := range []func(context.Context, time.Time) (string, error){r.lease, r.deployment, r.webhooks} {
		sign, err := look(ctx, now)
		if err != nil {
			return "", err
		}
		if sign != "" {
			r.asked, r.answer = now, "NVIDIA's operator is active: "+sign
			return r.answer, nil
		}
	}
	r.asked, r.answer = now, ""
	return "", nil
}

func (r *Rivals) lease(ctx context.Context, now time.Time) (string, error) {
	list, err := r.client.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, rivalLease).String(),
	})
	if err != nil {
		return "", fmt.Errorf("list leases: %w", err)
	}
	for i := range list.Items {
		if l := &list.Items[i]; held(l.Spec, now) {
			return fmt.Sprintf("%s holds the lease %s/%s", *l.Spec.HolderIdentity, l.Namespace, l.Name), nil
		}
	}
	return "", nil
}

func held(l coordinationv1.LeaseSpec, now time.Time) bool {
	if l.HolderIdentity == nil || *l.HolderIdentity == "" || l.RenewTime == nil || l.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(l.RenewTime.Add(time.Duration(*l.LeaseDurationSeconds)*time.Second + rivalSlack))
}

func (r *Rivals) deployment(ctx context.Context, _ time.Time) (string, error) {
	list, err := r.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{LabelSelector: rivalSelector})
	if err != nil {
		return "", fmt.Errorf("list deployments: %w", err)
	}
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.ReadyReplicas > 0 && isRival(d) {
			return fmt.Sprintf("Deployment %s/%s has %d ready pods", d.Namespace, d.Name, d.Status.ReadyReplicas), nil
		}
	}
	return "", nil
}

func isRival(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		for _, name := range rivalEnv {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
				return false
			}
		}
		return true
	})
}

func (r *Rivals) webhooks(ctx context.Context, _ time.Time) (string, error) {
	validating, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list validatingwebhookconfigurations: %w", err)
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			if judgesOurKinds(w.Rules, w.ClientConfig) {
				return "its ValidatingWebhookConfiguration " + c.Name + " is there", nil
			}
		}
	}
	mutating, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list mutatingwebhookconfigurations: %w", err)
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			if judgesOurKinds(w.Rules, w.ClientConfig) {
				return "its MutatingWebhookConfiguration " + c.Name + " is there", nil
			}
		}
	}
	return "", nil
}

// judgesOurKinds tells the operator's own webhooks, whose path names the group with hyphens, from those of a policy engine
// that has a rule for these kinds.
func judgesOurKinds(rules []admissionv1.RuleWithOperations, to admissionv1.WebhookClientConfig) bool {
	for _, group := range []string{nwv1.Group, nwv1.LegacyGroup} {
		named := slices.ContainsFunc(rules, func(r admissionv1.RuleWithOperations) bool {
			return slices.Contains(r.APIGroups, group)
		})
		path := strings.ReplaceAll(group, ".", "-")
		if named && to.Service != nil && to.Service.Path != nil && strings.Contains(*to.Service.Path, path) {
			return true
		}
	}
	return false
}
