package gitserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is a CA made for one server, and what that server needs.
type authority struct {
	ca          *x509.Certificate
	key         *ecdsa.PrivateKey
	certificate []byte // of the CA, as PEM
	config      *tls.Config
}

// newAuthority makes a CA and, signed by it, a certificate for loopback.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make CA key: %w", err)
	}
	ca := template("Fleetwright test CA", 1)
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make CA: %w", err)
	}
	a := &authority{ca: ca, key: key, certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	leaf := template("127.0.0.1", 2)
	leaf.IPAddresses, leaf.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, leafKey, err := a.sign(leaf)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.certificate)
	a.config = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: leafKey}},
		ClientCAs:    pool, MinVersion: tls.VersionTLS12,
	}
	return a, nil
}

func (a *authority) sign(leaf *x509.Certificate) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.ca, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificate: %w", err)
	}
	return der, key, nil
}

// clientCertificate is one for a client, and its key, as PEM.
func (a *authority) clientCertificate() (certificate, key []byte, err error) {
	leaf := template("client", 3)
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, private, err := a.sign(leaf)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}
