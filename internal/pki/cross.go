package pki

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

// Successor says how an authority is replaced.
type Successor struct {
	Region string
	From   time.Time     // the certificates begin an hour earlier
	Life   time.Duration // of the new authority
	// Cross is the life of the cross certificate: the time for which holders of the former authority alone
	// verify the certificates of the new one. It ends with the former authority.
	Cross time.Duration
}

// Replace makes the authority that replaces this one, and a cross certificate: the subject and the key of the
// new authority, signed by this one. With it a holder of this authority alone verifies certificates of the
// new one. The subject is unique, because other programs look an issuer up by it. The error is invalid, or
// precondition if this authority has ended.
func (a *Authority) Replace(r Successor) (next *Authority, crossPEM []byte, err error) {
	f := field.New("the certificate authority")
	checkRegion(f, r.Region)
	checkTimes(f, r.From, r.Life)
	err = f.Err()
	if err != nil {
		return nil, nil, err
	}

	if !r.From.Before(a.Cert.NotAfter) {
		return nil, nil, structs.Preconditionf("the certificate authority %q ended on %s: it cannot sign for another one", a.Cert.Subject, a.Cert.NotAfter.UTC().Format(time.RFC3339))
	}

	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}

	id := keyID(key.Public())
	subject := pkix.Name{
		Organization: []string{r.Region},
		CommonName:   commonName + " " + hex.EncodeToString(id[:4]),
	}

	template := authorityTemplate(r.Region, subject, r.From, r.Life)
	// A clock that is ahead makes no authority that begins only tomorrow.
	template.NotBefore = earlier(template.NotBefore, a.Cert.NotBefore)
	// Both certificates have the ID of the key, by which a verifier finds either.
	template.SubjectKeyId = id
	next, err = selfSigned(template, key)
	if err != nil {
		return nil, nil, err
	}

	// It is another certificate of the same subject and key, so only its number, its end and its issuer
	// differ.
	template.SerialNumber = newSerial()
	template.NotAfter = r.From.Add(min(r.Cross, r.Life, a.Cert.NotAfter.Sub(r.From)))
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the cross certificate of the authority: %w", err)
	}

	return next, encodeCert(der), nil
}

// AllowsBelow reports whether an authority allows a chain with a number of other authorities below it.
func AllowsBelow(authority *x509.Certificate, others int) bool {
	limited := authority.MaxPathLen > 0 || authority.MaxPathLen == 0 && authority.MaxPathLenZero
	return !limited || others <= authority.MaxPathLen
}

// HasSigned reports whether an authority has signed a certificate.
func HasSigned(authority, cert *x509.Certificate) bool {
	return cert.CheckSignatureFrom(authority) == nil
}
