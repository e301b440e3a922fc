package cluster

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// shared is the one control plane of a test binary. Package-level state is the price of go test's one TestMain.
var shared struct {
	once    sync.Once
	options Options
	main    bool
	cluster *Cluster
	err     error
}

// Main runs a package's tests with one control plane, which starts when a test first asks for it and stops at the end.
// Call it from TestMain; it does not return.
func Main(m *testing.M, o Options) {
	shared.options, shared.main = o, true
	code := m.Run()
	if shared.cluster != nil {
		code = max(code, refusals(shared.cluster.Audit()))
		shared.cluster.Stop()
	}
	os.Exit(code)
}

// refusals fails a run in which somebody who must never be refused lacked a right (field report SE-03), whatever the tests saw.
func refusals(audit *Audit) int {
	all, err := audit.Refusals()
	for _, r := range all {
		fmt.Fprintf(os.Stderr, "FAIL: %s may not %s %s: the shipped role lacks it\n", r.User, r.Verb, r.URI)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: read refusals:", err)
	}
	if len(all) > 0 || err != nil {
		return 1
	}
	return 0
}

// Shared is the test binary's control plane; the first call starts it. Tests share its cluster-scoped objects and keep
// apart by namespaces and names. The first call of all builds the program, which takes longer than go test's default
// time limit on a cold build cache; it then stops in time and says what to do.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if !shared.main {
		t.Fatal("cluster.Shared needs this in the package's tests: func TestMain(m *testing.M) { cluster.Main(m, cluster.Options{...}) }")
	}
	shared.once.Do(func() { shared.cluster, shared.err = startBefore(deadline(t), shared.options) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

func deadline(t testing.TB) time.Time {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if at, limited := d.Deadline(); limited {
			return at.Add(-15 * time.Second) // to say why, before go test ends the process
		}
	}
	return time.Now().Add(2 * time.Hour)
}

func startBefore(limit time.Time, o Options) (*Cluster, error) {
	ctx, cancel := context.WithDeadline(context.Background(), limit)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("no time left of go test's limit to build or start the control plane: "+
			"run `go run ./test/cluster/buildcontrolplane` once, or go test with -timeout 60m: %w", err)
	}
	return c, err
}

// Namespace makes a namespace for one test, named after it, with the service account "default" that pods need, and
// deletes it at the test's end.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	ns, err := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{})
	})
	// The controller that makes it may not run, and where it runs it may be slower than the test's first pod.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err = client.CoreV1().ServiceAccounts(ns.Name).Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create service account: %v", err)
	}
	return ns.Name
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// namespacePrefix makes a test's name fit: lower case, digits, dashes, short enough for a random end.
func namespacePrefix(test string) string {
	s := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(test), "-"), "-")
	if len(s) > 40 {
		s = strings.TrimRight(s[:40], "-")
	}
	return s + "-"
}
