package chart

import (
	"context"
	"fmt"

	authv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ReconcilerAccount, ExecutionAccount, InterruptAccount and ReviewerAccount are the names of the chart's ServiceAccounts.
const (
	ReconcilerAccount = "fleetwright-reconciler"
	ExecutionAccount  = "fleetwright-execution"
	InterruptAccount  = "fleetwright-interrupt"
	ReviewerAccount   = "fleetwright-reviewer"
)

// tokenSeconds is how long a token of ReconcilerConfig lives: longer than any test or demo.
const tokenSeconds = 24 * 3600

// ReconcilerConfig returns a configuration that acts as the chart's reconciler in the namespace, with its rights and no
// others: the server and CA of cfg, and a fresh token of its ServiceAccount in place of cfg's credentials. Apply comes first.
func ReconcilerConfig(ctx context.Context, cfg *rest.Config, namespace string) (*rest.Config, error) {
	return AccountConfig(ctx, cfg, namespace, ReconcilerAccount)
}

// AccountConfig returns a configuration that acts as one of the chart's accounts.
func AccountConfig(ctx context.Context, cfg *rest.Config, namespace, account string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	seconds := int64(tokenSeconds)
	request := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(namespace).
		CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("request token of %s/%s: %w", namespace, account, err)
	}
	out := rest.AnonymousClientConfig(cfg)
	out.BearerToken = token.Status.Token
	return out, nil
}
