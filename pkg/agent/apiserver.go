package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// CredentialsDir is where an interrupt's container finds its short-lived token and the cluster's CA.
const CredentialsDir = "/var/run/secrets/fleetwright.dev"

const (
	// apiTimeout bounds one request.
	apiTimeout = 20 * time.Second
	// maxAnswer bounds what is read of an answer: a node has some hundred pods of some 10 KiB.
	maxAnswer = 64 << 20
)

// APIServer reads from the API server with the rights of the interrupt's own account. It is a NodeReader.
type APIServer struct {
	url    string
	token  string
	client *http.Client
}

// InCluster is the API server of the pod's cluster: address as given to every pod (KUBERNETES_SERVICE_HOST, _PORT), token and
// ca.crt in dir.
func InCluster(environ []string, dir string) (*APIServer, error) {
	env := environment(environ)
	host, port := env.or("KUBERNETES_SERVICE_HOST", ""), env.or("KUBERNETES_SERVICE_PORT", "443")
	if host == "" {
		return nil, fmt.Errorf("find the API server: KUBERNETES_SERVICE_HOST is not set")
	}
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read CA of the cluster: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read CA of the cluster: %s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	return &APIServer{
		url: "https://" + net.JoinHostPort(host, port), token: strings.TrimSpace(string(token)),
		client: &http.Client{Timeout: apiTimeout, Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}},
	}, nil
}

// Node reads a node.
func (s *APIServer) Node(ctx context.Context, name string) (Node, error) {
	var out Node
	err := s.get(ctx, "/api/v1/nodes/"+url.PathEscape(name), nil, &out)
	return out, err
}

// Pods lists the pods that are bound to a node, from the storage and not from a cache.
func (s *APIServer) Pods(ctx context.Context, node, selector string) ([]Pod, error) {
	query := url.Values{"fieldSelector": {"spec.nodeName=" + node}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	var out struct {
		Items []Pod `json:"items"`
	}
	err := s.get(ctx, "/api/v1/pods", query, &out)
	return out.Items, err
}

// get reads one object. An answer is quoted by its status only: it may be anybody's.
func (s *APIServer) get(ctx context.Context, path string, query url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "fleetwright-agent")
	answer, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server answers %s", answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("read answer of the API server: %w", err)
	}
	return nil
}
