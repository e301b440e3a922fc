package git_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/fleetwright/fleetwright/test/gitserver"
)

func newEd25519(t *testing.T) ssh.Signer {
	signer, _, err := gitserver.NewKey("")
	require.NoError(t, err)
	return signer
}

func newECDSA(t *testing.T) ssh.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return newSigner(t, key)
}

func newRSA(t *testing.T) ssh.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return newSigner(t, key)
}

func newSigner(t *testing.T, key any) ssh.Signer {
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return signer
}
