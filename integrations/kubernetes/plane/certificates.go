package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// validity is how long the certificates of a run are good.
const validity = 24 * time.Hour

// authority signs the certificates of one run. They and their keys are files in its folder.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	last        int64
}

func newAuthority(t testing.TB, folder string) *authority {
	t.Helper()
	made := &authority{folder: folder}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "plane"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	made.certificate, made.key = made.sign(t, "ca", template)
	return made
}

// issue makes `NAME.pem` and `NAME-key.pem` for a user, which is also a server on loopback.
func (a *authority) issue(t testing.TB, name, user string, groups ...string) {
	t.Helper()
	a.sign(t, name, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"localhost"},
	})
}

func (a *authority) sign(t testing.TB, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.last++
	template.SerialNumber = big.NewInt(a.last)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(signed)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".pem", "CERTIFICATE", signed)
	a.write(t, name+"-key.pem", "PRIVATE KEY", private)
	a.write(t, name+"-pub.pem", "PUBLIC KEY", public)
	return certificate, key
}

func (a *authority) write(t testing.TB, name, kind string, bytes []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.folder, name) }
