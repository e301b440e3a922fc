// Command images builds the container images of Fleetwright as OCI image layouts, with nothing but the Go toolchain: static
// binaries on an empty base, each with the list of modules that it was linked from (SPDX), which is also written beside it. It is
// what `make images` calls.
//
//	go run ./test/images [-out bin/images] [-arch amd64] [-tag dev] [reconciler] [agent]
//
// Equal sources, toolchain and certificates give equal digests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/pkg/adapter/oci"
	"github.com/fleetwright/fleetwright/test/images/static"
)

const repository = "ghcr.io/fleetwright"

// certificates are where Linux distributions keep the bundle of trusted authorities, in the order in which Go looks.
var certificates = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

type options struct {
	out, arch, tag, bundle string
}

// makers by the image's name.
var makers = map[string]func(o options, binary []byte) (oci.Spec, error){"reconciler": reconciler, "agent": agent}

func main() {
	o := options{}
	flag.StringVar(&o.out, "out", "bin/images", "directory; each image becomes a layout in it")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture, as in GOARCH")
	flag.StringVar(&o.tag, "tag", "dev", "tag of the reference that is noted in the layout")
	flag.StringVar(&o.bundle, "ca-bundle", "", "PEM file of the authorities that the reconciler trusts (default: this machine's)")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = []string{"agent", "reconciler"}
	}
	for _, name := range names {
		if err := build(o, name); err != nil {
			fmt.Fprintln(os.Stderr, "images:", err)
			os.Exit(1)
		}
	}
}

func build(o options, name string) error {
	maker, ok := makers[name]
	if !ok {
		return fmt.Errorf("no image %q (allowed: agent, reconciler)", name)
	}
	binary, err := static.Compile(".", name, o.arch)
	if err != nil {
		return err
	}
	spec, err := maker(o, binary)
	if err != nil {
		return err
	}
	sbom, err := oci.SBOM(name, o.tag, binary)
	if err != nil {
		return err
	}
	spec.Files["/usr/share/sbom/"+name+".spdx.json"] = oci.File{Data: sbom, Mode: 0o644}
	img, err := oci.Build(spec)
	if err != nil {
		return err
	}
	reference := repository + "/" + name + ":" + o.tag
	dir := filepath.Join(o.out, name)
	digest, err := oci.WriteLayout(dir, img, reference)
	if err != nil {
		return err
	}
	if err := os.WriteFile(dir+".spdx.json", sbom, 0o644); err != nil {
		return fmt.Errorf("write list of modules: %w", err)
	}
	fmt.Printf("%s@%s\t%s\t%.1f MiB\n", reference, digest, dir, float64(len(binary))/(1<<20))
	return nil
}

// agent runs as root in a privileged container, and its programs are the host's: the image holds the binary, and what it was made of.
func agent(o options, binary []byte) (oci.Spec, error) {
	return oci.Spec{
		Architecture: o.arch, Entrypoint: []string{"/fleetwright-agent"}, Labels: labels("on-node executor"),
		Files: map[string]oci.File{"/fleetwright-agent": {Data: binary, Mode: 0o755}},
	}, nil
}

// reconciler runs without any right, and speaks TLS to git servers and forges.
func reconciler(o options, binary []byte) (oci.Spec, error) {
	bundle, err := trusted(o.bundle)
	if err != nil {
		return oci.Spec{}, err
	}
	return oci.Spec{
		Architecture: o.arch, User: "65532:65532", Entrypoint: []string{"/fleetwright-reconciler"}, Labels: labels("reconciler"),
		Env:  []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Dirs: map[string]int64{"/tmp": 0o1777},
		Files: map[string]oci.File{
			"/fleetwright-reconciler":            {Data: binary, Mode: 0o755},
			"/etc/ssl/certs/ca-certificates.crt": {Data: bundle, Mode: 0o644},
			"/etc/passwd":                        {Data: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"), Mode: 0o644},
		},
	}, nil
}

func labels(title string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title": "Fleetwright " + title, "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source": "https://github.com/fleetwright/fleetwright",
	}
}

func trusted(file string) ([]byte, error) {
	places := certificates
	if file != "" {
		places = []string{file}
	}
	for _, place := range slices.Compact(places) {
		data, err := os.ReadFile(place)
		if err == nil && strings.Contains(string(data), "BEGIN CERTIFICATE") {
			return data, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("find trusted authorities: no certificates in %s", strings.Join(places, ", ")),
		errors.New("install ca-certificates, or name a PEM file with -ca-bundle"))
}
