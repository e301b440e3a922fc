package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestParseOptions(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "-dir is required: the directory for the cluster's state"},
		{"-dir=x extra", `unexpected argument "extra": this program takes flags only`},
		{"-dir=x -node-lifecycle", "-node-lifecycle needs -controllers: it is one of kube-controller-manager's controllers"},
		{"-dir=x -controllers -node-lifecycle -scheduler", ""},
	} {
		o, err := parseOptions(strings.Fields(c.args))
		if got := message(err); got != c.want {
			t.Errorf("%q: got %q, want %q", c.args, got, c.want)
		}
		if err == nil && !filepath.IsAbs(o.dir) {
			t.Errorf("%q: -dir stays relative: %s", c.args, o.dir)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCredentials_AreReusedAndNeverHalfWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.MkdirAll(dir+".new", 0o700); err != nil { // left over from a start that was killed
		t.Fatal(err)
	}
	first, err := loadOrCreateCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadOrCreateCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !first.ca.Equal(second.ca) {
		t.Error("the second start made another CA")
	}
	out := t.TempDir()
	if err := second.writeKubeconfigs(out, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(out, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := os.ReadFile(first.file("tokens.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if want := config.BearerToken + `,admin,admin,"system:masters"`; !strings.Contains(string(tokens), want) {
		t.Error("the administrator's token is not the one that the server knows")
	}
}

func TestListen_TakesTheSamePortAgain(t *testing.T) {
	dir := t.TempDir()
	first, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if second.Addr().String() != address {
		t.Errorf("got %s, want %s", second.Addr(), address)
	}
	if !second.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("%s is not loopback", second.Addr())
	}
}

func TestComponent_ReportsAnEndThatNobodyAskedFor(t *testing.T) {
	c, err := start(context.Background(), "x", func(context.Context) error { return fmt.Errorf("no disk") })
	if err != nil {
		t.Fatal(err)
	}
	if got := message(<-c.failed); got != "run x: ended by itself: no disk" {
		t.Errorf("got %q", got)
	}
	stopped := false
	c, err = start(context.Background(), "x", func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.stop()
	if !stopped || len(c.failed) != 0 {
		t.Error("stop must wait for the end and is no failure")
	}
}

func TestUntilEOF_EndsWithTheInput(t *testing.T) {
	r, w := io.Pipe()
	ctx := untilEOF(context.Background(), r)
	if ctx.Err() != nil {
		t.Fatal("ended before its input")
	}
	_ = w.Close()
	<-ctx.Done()
}
