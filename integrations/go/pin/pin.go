// Package pin accepts the one TLS certificate with a given SHA-256 and no other, even one that an authority signed.
package pin

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"strings"
)

// Config returns the settings of TLS for a fingerprint: 64 hexadecimal digits, with or without colons. The peer's name is
// for errors.
func Config(fingerprint, peer string) (*tls.Config, error) {
	pinned, err := hex.DecodeString(strings.ReplaceAll(fingerprint, ":", ""))
	if err != nil || len(pinned) != sha256.Size {
		return nil, fmt.Errorf("%q is no SHA-256 thumbprint: write 64 hexadecimal digits, with or without colons, as "+
			"`openssl x509 -noout -fingerprint -sha256` prints them", fingerprint)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The fingerprint replaces the chain: VerifyConnection refuses every other certificate.
		InsecureSkipVerify: true, //nolint:gosec
		VerifyConnection: func(state tls.ConnectionState) error {
			shown := sha256.Sum256(state.PeerCertificates[0].Raw)
			if string(shown[:]) != string(pinned) {
				return &Error{Pinned: Colons(pinned), Shown: Colons(shown[:]), Peer: peer}
			}
			return nil
		},
	}, nil
}

// Colons writes a fingerprint as OpenSSL and vSphere do: upper-case hexadecimal bytes with colons.
func Colons(sum []byte) string {
	text := make([]string, len(sum))
	for at, octet := range sum {
		text[at] = fmt.Sprintf("%02X", octet)
	}
	return strings.Join(text, ":")
}

// Error reports a certificate that is not the pinned one.
type Error struct{ Pinned, Shown, Peer string }

func (e *Error) Error() string {
	return "the certificate is not the pinned one: its thumbprint is " + e.Shown + ", pinned is " + e.Pinned +
		"; if it was replaced, pin the new one, otherwise an attacker may be between here and " + e.Peer
}
