//go:build linux

package realnode

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"embed"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed files
var files embed.FS

// format makes the machine's disk: links into /usr, and what its services are configured with.
func (m *Machine) format() error {
	if err := m.directories(); err != nil {
		return err
	}
	for target, file := range map[string]string{
		"/usr/local/bin/systemctl": "systemctl.sh", "/usr/local/sbin/reboot": "reboot.sh", "/usr/local/sbin/update-grub": "update-grub.sh",
		"/etc/containerd/config.toml": "containerd.toml", "/etc/kubernetes/kubelet.yaml": "kubelet.yaml",
		"/etc/containerd/certs.d/" + Registry + "/hosts.toml": "hosts.toml", "/etc/cni/net.d/10-loopback.conflist": "loopback.conflist",
	} {
		if err := m.install(target, file); err != nil {
			return err
		}
	}
	for target, content := range map[string]string{
		"/etc/machine-id": strings.ReplaceAll(newUUID(), "-", "") + "\n", "/etc/hostname": m.Name + "\n",
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "/etc/group": "root:x:0:\n", "/etc/resolv.conf": "",
		"/etc/hosts": "127.0.0.1 localhost\n" + m.Address + " " + m.Name + "\n", "/etc/os-release": "ID=realnode\nNAME=\"Real node\"\n",
		"/usr/local/bin/kubelet":           "", // the program is mounted over it
		"/etc/systemd/system/demo.service": "[Service]\nExecStart=/usr/bin/demo\n", "/boot/grub/cmdline": "BOOT_IMAGE=/vmlinuz\n",
	} {
		if err := writeFile(m.Path(target), content, 0o644); err != nil {
			return err
		}
	}
	return m.credentials()
}

func (m *Machine) directories() error {
	for _, dir := range []string{
		"etc/systemd/system", "etc/default/grub.d", "etc/sysctl.d", "etc/security/limits.d", "boot/grub", "proc", "sys", "dev", "run", "mnt", "root", "home", "opt", "srv",
		"usr", "var/lib", "var/log",
	} {
		if err := os.MkdirAll(filepath.Join(m.disk, dir), 0o755); err != nil {
			return err
		}
	}
	err := errors.Join(os.MkdirAll(m.local(), 0o755), os.Mkdir(filepath.Join(m.disk, "tmp"), 0o777), os.Chmod(filepath.Join(m.disk, "tmp"), 0o1777))
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, no := os.Readlink("/" + dir); no == nil {
			err = errors.Join(err, os.Symlink(strings.TrimPrefix(target, "/"), filepath.Join(m.disk, dir)))
		}
	}
	return err
}

// install puts a file of this package in place, with the words in capitals filled in.
func (m *Machine) install(target, file string) error {
	data, err := files.ReadFile("files/" + file)
	if err != nil {
		return err
	}
	text := strings.NewReplacer(
		"PAUSE", Registry+"/"+baseImage, "REGISTRY", "http://"+m.lab.pull, "CGROUP", "/"+cgroupName+"/"+m.Name,
	).Replace(string(data))
	mode := os.FileMode(0o644)
	if strings.HasSuffix(file, ".sh") {
		text, mode = string(data), 0o755
	}
	return writeFile(m.Path(target), text, mode)
}

// credentials are the kubelet's: a certificate of the cluster's CA for the node's own user, whom the API server's Node authorizer
// lets see and change what is bound to this node only.
func (m *Machine) credentials() error {
	pki := filepath.Join(m.lab.Cluster.Dir(), "pki")
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return fmt.Errorf("read CA of the control plane (it has to be the one of test/cluster): %w", err)
	}
	key, err := os.ReadFile(filepath.Join(pki, "ca.key"))
	if err != nil {
		return fmt.Errorf("read CA's key: %w", err)
	}
	cert, certKey, err := issue(ca, key, pkix.Name{CommonName: "system:node:" + m.Name, Organization: []string{"system:nodes"}})
	if err != nil {
		return fmt.Errorf("issue certificate of kubelet: %w", err)
	}
	k := clientcmdapi.NewConfig()
	k.Clusters["node"] = &clientcmdapi.Cluster{Server: "https://" + serviceAddress + ":443", CertificateAuthorityData: ca}
	k.AuthInfos["kubelet"] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: certKey}
	k.Contexts["node"] = &clientcmdapi.Context{Cluster: "node", AuthInfo: "kubelet"}
	k.CurrentContext = "node"
	return errors.Join(
		clientcmd.WriteToFile(*k, m.Path("/etc/kubernetes/kubelet.kubeconfig")),
		writeFile(m.Path("/etc/kubernetes/ca.crt"), string(ca), 0o644))
}

// issue makes a key and a client certificate for it; everything in PEM.
func issue(caPEM, caKeyPEM []byte, subject pkix.Name) (cert, key []byte, err error) {
	caBlock, _ := pem.Decode(caPEM)
	keyBlock, _ := pem.Decode(caKeyPEM)
	if caBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("the CA is not in PEM")
	}
	ca, err := x509.ParseCertificate(caBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	caKey, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, own.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	ownDER, err := x509.MarshalECPrivateKey(own)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ownDER}), nil
}

func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails, see its documentation
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
