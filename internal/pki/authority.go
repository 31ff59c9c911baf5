package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

const (
	blockCert = "CERTIFICATE"
	blockKey  = "PRIVATE KEY" // PKCS #8

	commonName = "berth CA" // of an authority
)

// Authority signs the certificates of a cluster.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes an authority with a new key. Its certificate begins an hour before from and ends life
// after it. The error is invalid.
func NewAuthority(region string, from time.Time, life time.Duration) (*Authority, error) {
	f := field.New("the certificate authority")
	checkRegion(f, region)
	checkTimes(f, from, life)
	err := f.Err()
	if err != nil {
		return nil, err
	}

	key, err := newKey()
	if err != nil {
		return nil, err
	}

	subject := pkix.Name{Organization: []string{region}, CommonName: commonName}
	// The certificate has the region, so a command needs no option for the region of what it signs.
	return selfSigned(authorityTemplate(region, subject, from, life), key)
}

// authorityTemplate returns the certificate of an authority. It allows other authorities below it, so that it
// can sign for the one that replaces it. The certificates of machines are of no authority.
func authorityTemplate(
	region string, subject pkix.Name, from time.Time, life time.Duration,
) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               subject,
		URIs:                  []*url.URL{{Scheme: scheme, Host: region}},
		NotBefore:             from.Add(-ClockSkew),
		NotAfter:              from.Add(life),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

func selfSigned(template *x509.Certificate, key crypto.Signer) (*Authority, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of the authority: %w", err)
	}

	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate of the authority: %w", err)
	}

	return &Authority{Cert: cert, key: key}, nil
}

// ParseAuthority reads an authority from its certificate, the first of certPEM, and its key. It rejects the
// certificate of another kind and the key of another certificate. The error is invalid.
func ParseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, structs.Invalidf("the certificate authority and its key: %w", err)
	}

	cert := pair.Leaf
	if !cert.BasicConstraintsValid || !cert.IsCA {
		return nil, structs.Invalidf("the certificate %q is not of a certificate authority: "+
			"expected one that `berth tls ca create` or another tool made as such", cert.Subject)
	}

	// A certificate without the extension may be used for all.
	if cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, structs.Invalidf("the certificate authority %q must not sign certificates: "+
			"its key usage lacks keyCertSign", cert.Subject)
	}

	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, structs.Invalidf("the key of the certificate authority %q cannot sign", cert.Subject)
	}

	return &Authority{Cert: cert, key: key}, nil
}

// Region returns the region of an authority of NewAuthority; of another it returns "".
func (a *Authority) Region() string {
	for _, u := range a.Cert.URIs {
		if u.Scheme == scheme {
			return u.Host
		}
	}
	return ""
}

// CertPEM returns the certificate of the authority.
func (a *Authority) CertPEM() []byte { return encodeCert(a.Cert.Raw) }

// KeyPEM returns the key of the authority in PKCS #8.
func (a *Authority) KeyPEM() ([]byte, error) { return encodeKey(a.key) }

// Issue makes a key and signs its certificate. The key is in PKCS #8. The error is invalid.
func (a *Authority) Issue(r Request) (certPEM, keyPEM []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}

	certPEM, err = a.Sign(key.Public(), r)
	if err != nil {
		return nil, nil, err
	}

	keyPEM, err = encodeKey(key)
	if err != nil {
		return nil, nil, err
	}

	return certPEM, keyPEM, nil
}

// Sign signs a certificate for the holder of a key, who keeps it. The certificate does not outlive the
// authority. The error is invalid.
func (a *Authority) Sign(pub crypto.PublicKey, r Request) (certPEM []byte, err error) {
	err = a.check(pub, r)
	if err != nil {
		return nil, err
	}

	der, err := x509.CreateCertificate(rand.Reader, r.template(pub), a.Cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %s: %w", r.Identity, err)
	}

	return encodeCert(der), nil
}

func (a *Authority) check(pub crypto.PublicKey, r Request) error {
	err := r.Validate()
	if err != nil {
		return err
	}

	// The key comes from the machine that asks, and each handshake pays for it.
	err = checkKey(pub)
	if err != nil {
		return err
	}

	// After its authority nobody could verify it, and the failure would have no reason that its holder knows.
	if end := r.From.Add(r.Life); end.After(a.Cert.NotAfter) {
		return structs.Invalidf("the certificate of %s would end on %s, after its authority, which ends on %s: "+
			"expected a shorter life, or a new authority",
			r.Identity, end.UTC().Format(time.RFC3339), a.Cert.NotAfter.UTC().Format(time.RFC3339))
	}

	return nil
}

// newKey makes a key on the curve P-256, which every tool for TLS 1.3 takes.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

// newSerial returns a random number of 128 bits, which no other certificate has.
func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return new(big.Int).SetBytes(b[:])
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCert, Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}
