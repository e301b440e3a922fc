package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// validity is long enough that nobody meets an expired development cluster.
const validity = 10 * 365 * 24 * time.Hour

// credentials are the keys and certificates of one control plane, in one directory. People and controllers
// authenticate by token, not by certificate, so that a proxy in front of the server can pass identities on.
type credentials struct {
	dir   string
	ca    *x509.Certificate
	caKey *ecdsa.PrivateKey
	caPEM []byte
}

func (c *credentials) file(name string) string { return filepath.Join(c.dir, name) }

// loadOrCreateCredentials reuses what an earlier start wrote, so that kubeconfigs and service account tokens of before
// a restart still work after it. The directory appears complete or not at all.
func loadOrCreateCredentials(dir string) (*credentials, error) {
	if _, err := os.Stat(dir); err == nil {
		return loadCredentials(dir)
	}
	tmp := dir + ".new"
	if err := errors.Join(os.RemoveAll(tmp), os.MkdirAll(tmp, 0o700)); err != nil {
		return nil, fmt.Errorf("make directory for keys: %w", err)
	}
	c := &credentials{dir: tmp}
	if err := c.createAll(); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return nil, fmt.Errorf("keep keys: %w", err)
	}
	c.dir = dir
	return c, nil
}

func loadCredentials(dir string) (*credentials, error) {
	c := &credentials{dir: dir}
	var err error
	if c.caPEM, err = os.ReadFile(c.file("ca.crt")); err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	block, _ := pem.Decode(c.caPEM)
	if block == nil {
		return nil, fmt.Errorf("read CA: %s holds no PEM block", c.file("ca.crt"))
	}
	if c.ca, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("parse CA: %w", err)
	}
	return c, nil
}

func (c *credentials) createAll() error {
	if err := c.createCA(); err != nil {
		return err
	}
	if err := c.issue("server", pkix.Name{CommonName: "kube-apiserver"}); err != nil {
		return err
	}
	kubelet := pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}
	if err := c.issue("kubelet-client", kubelet); err != nil {
		return err
	}
	if _, err := c.newKey("sa"); err != nil {
		return err
	}
	return c.createTokens()
}

// identities are the static users: the file name of the kubeconfig, the user name and the group.
var identities = []struct{ file, user, group string }{
	{"admin", "admin", "system:masters"},
	// All controllers share one identity here; with per-controller accounts each start would take longer.
	{"controllers", "system:kube-controller-manager", "system:masters"},
	{"scheduler", "system:kube-scheduler", ""},
}

// createTokens writes the token file of kube-apiserver: token, user, uid, "groups".
func (c *credentials) createTokens() error {
	var lines []byte
	for _, id := range identities {
		b := make([]byte, 24)
		_, _ = rand.Read(b) // never fails, see its documentation
		token := hex.EncodeToString(b)
		lines = fmt.Appendf(lines, "%s,%s,%s,%q\n", token, id.user, id.user, id.group)
		if err := os.WriteFile(c.file(id.file+".token"), []byte(token), 0o600); err != nil {
			return fmt.Errorf("write token of %s: %w", id.user, err)
		}
	}
	if err := os.WriteFile(c.file("tokens.csv"), lines, 0o600); err != nil {
		return fmt.Errorf("write tokens: %w", err)
	}
	return nil
}

func (c *credentials) newKey(name string) (*ecdsa.PrivateKey, error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", name, err)
	}
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", name, err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return k, os.WriteFile(c.file(name+".key"), b, 0o600)
}

func (c *credentials) createCA() error {
	key, err := c.newKey("ca")
	if err != nil {
		return err
	}
	t := template(pkix.Name{CommonName: "fleetwright-test-ca"})
	t.IsCA, t.BasicConstraintsValid = true, true
	t.KeyUsage |= x509.KeyUsageCertSign
	c.caKey, c.ca = key, t
	c.ca, c.caPEM, err = c.sign("ca", t, key)
	return err
}

func (c *credentials) issue(name string, subject pkix.Name) error {
	key, err := c.newKey(name)
	if err != nil {
		return err
	}
	t := template(subject)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	t.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}
	_, _, err = c.sign(name, t, key)
	return err
}

func template(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // fails only if the random source does, which ends the process
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
}

func (c *credentials) sign(name string, t *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, []byte, error) {
	der, err := x509.CreateCertificate(rand.Reader, t, c.ca, key.Public(), c.caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(c.file(name+".crt"), b, 0o600); err != nil {
		return nil, nil, fmt.Errorf("write certificate %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, b, err
}

func (c *credentials) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(c.ca)
	return p
}

// writeKubeconfigs writes one kubeconfig for each static identity, with the address of this start.
func (c *credentials) writeKubeconfigs(dir, address string) error {
	for _, id := range identities {
		token, err := os.ReadFile(c.file(id.file + ".token"))
		if err != nil {
			return fmt.Errorf("read token of %s: %w", id.user, err)
		}
		k := clientcmdapi.NewConfig()
		k.Clusters["test"] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: c.caPEM}
		k.AuthInfos[id.file] = &clientcmdapi.AuthInfo{Token: string(token)}
		k.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: id.file}
		k.CurrentContext = "test"
		if err := clientcmd.WriteToFile(*k, filepath.Join(dir, id.file+".kubeconfig")); err != nil {
			return fmt.Errorf("write kubeconfig of %s: %w", id.user, err)
		}
	}
	return nil
}
