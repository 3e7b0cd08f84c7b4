package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"ashlar/integrations/vsphere/secret"
)

const (
	// certificateLifetime of one that is made here: vCenter pins it, so that a new one means a new registration.
	certificateLifetime = 5 * 365 * 24 * time.Hour
	serialBits          = 127
)

// EnsureCertificate reads the certificate and its key, which are made if neither file is there. vCenter knows the certificate
// by its thumbprint, so that no authority has to sign it.
func EnsureCertificate(certificate, key string, names []string) (*tls.Config, error) {
	_, first := os.Stat(certificate)
	_, second := os.Stat(key)
	if errors.Is(first, fs.ErrNotExist) && errors.Is(second, fs.ErrNotExist) {
		if err := makeCertificate(certificate, key, names); err != nil {
			return nil, fmt.Errorf("the certificate can't be made: %w", err)
		}
	}
	private, err := secret.Read(key)
	if err != nil {
		return nil, fmt.Errorf("the key of the certificate can't be read: %w", err)
	}
	public, err := os.ReadFile(certificate)
	if err != nil {
		return nil, fmt.Errorf("the certificate can't be read: %w", err)
	}
	read, err := tls.X509KeyPair(public, private)
	if err != nil {
		return nil, fmt.Errorf("the certificate can't be used: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{read}}, nil
}

func makeCertificate(certificate, key string, names []string) error {
	if len(names) == 0 {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		names = []string{host}
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return err
	}
	made := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: names[0], Organization: []string{"Ashlar"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certificateLifetime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			made.IPAddresses = append(made.IPAddresses, address)
		} else {
			made.DNSNames = append(made.DNSNames, name)
		}
	}
	signed, err := x509.CreateCertificate(rand.Reader, made, made, private.Public(), private)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	// The key first: a certificate without one would keep both from being made again.
	if err := write(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})); err != nil {
		return err
	}
	return write(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
}
