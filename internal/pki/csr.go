package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/url"

	"berth/structs"
)

// MaxCSR is the largest signing request in bytes.
const MaxCSR = 8 << 10

// Key is the key of a certificate, which its holder makes and keeps.
type Key struct{ signer crypto.Signer }

// NewKey makes a key.
func NewKey() (*Key, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return &Key{key}, nil
}

// KeyOf returns a key that was read from a file. The error is invalid for one that cannot sign.
func KeyOf(key crypto.PrivateKey) (*Key, error) {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, structs.Invalidf("the key of the certificate cannot sign")
	}
	return &Key{signer}, checkKey(signer.Public())
}

// PEM returns the key in PKCS #8.
func (k *Key) PEM() ([]byte, error) { return encodeKey(k.signer) }

// CSR returns the request, in DER, for a certificate of the key that gives it an identity. Its signature
// shows that the sender has the key. The error is invalid.
func (k *Key) CSR(id Identity) ([]byte, error) {
	err := id.Validate()
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{URIs: []*url.URL{id.URI()}}, k.signer)
}

// CSR is a request for a certificate, whose sender has the key.
type CSR struct {
	Identity Identity
	Public   crypto.PublicKey
}

// ParseCSR reads a request and verifies its signature. Its names and its other fields are ignored. The
// error is invalid.
func ParseCSR(der []byte) (CSR, error) {
	if len(der) > MaxCSR {
		return CSR{}, structs.Invalidf("the signing request has %d bytes; at most %d are allowed", len(der),
			MaxCSR)
	}

	parsed, err := x509.ParseCertificateRequest(der)
	if err == nil {
		err = checkKey(parsed.PublicKey)
	}

	if err == nil {
		err = parsed.CheckSignature()
	}
	if err != nil {
		return CSR{}, structs.Invalidf("the signing request: %w", err)
	}

	// Only the identity is asked for: the names of a machine are the signer's to decide.
	if len(parsed.URIs) != 1 {
		return CSR{}, structs.Invalidf("the signing request has %d URIs; expected its identity alone",
			len(parsed.URIs))
	}

	id, err := parseIdentity(parsed.URIs[0])
	if err != nil {
		return CSR{}, structs.Invalidf("the signing request: %w", err)
	}

	return CSR{
		Identity: id,
		Public:   parsed.PublicKey,
	}, nil
}

// KeyHash returns the SHA-256 of a public key, nil for a key that no certificate of the cluster has.
func KeyHash(pub crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(der)
	return sum[:]
}

// Fingerprint returns the SHA-256 of a certificate.
func Fingerprint(cert *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(cert.Raw) }

// AuthorityID returns the fingerprint of an authority in hexadecimal.
func AuthorityID(cert *x509.Certificate) string {
	sum := Fingerprint(cert)
	return hex.EncodeToString(sum[:])
}
