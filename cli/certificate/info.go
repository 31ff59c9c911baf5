package certificate

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"berth/api/show"
	"berth/cli/command"
	"berth/internal/pki"
	"berth/structs"
)

// certificate is the answer of info.
type certificate struct {
	Identity          string `json:",omitempty"` // spiffe://REGION/ROLE/ID
	Region            string `json:",omitempty"`
	Role              pki.Role
	ID                string `json:",omitempty"`
	Authority         bool   // it signs others
	Subject           string
	Names             []string // DNS names and IP addresses
	From              time.Time
	Until             time.Time
	LifeLeft          float64 // percent
	Serial            string  // hexadecimal
	Fingerprint       string  // SHA-256 of the certificate, hexadecimal
	Issuer            string
	IssuerKeyID       string `json:",omitempty"` // hexadecimal
	IssuerFingerprint string `json:",omitempty"` // of the issuer that -ca or the file has
}

// showCertificate calls no agent. A certificate that -ca has not signed ends it with code 2.
func showCertificate(_ context.Context, c *command.Call) error {
	certs, err := readCertificates(c, c.Arg(0))
	if err != nil {
		return err
	}

	issuers := certs
	if c.Given("ca") {
		issuers, err = readCertificates(c, c.String("ca"))
	}
	if err != nil {
		return err
	}

	info := describe(certs[0])
	issuer := issuerOf(certs[0], append(issuers, certs[1:]...))
	if issuer != nil {
		info.IssuerFingerprint = fingerprint(issuer.Raw)
	}

	if c.Given("ca") && !isSignedBy(certs, issuers) {
		return structs.Invalidf("the certificate %s is not signed by %s: its issuer is %q with the key ID %s",
			c.Arg(0), c.String("ca"), info.Issuer, info.IssuerKeyID)
	}

	return c.Show(info, func() error {
		printCertificate(c, info)
		return nil
	})
}

// issuerOf returns the certificate that has signed another one, nil if none of the candidates has.
func issuerOf(cert *x509.Certificate, candidates []*x509.Certificate) *x509.Certificate {
	for _, candidate := range candidates {
		if cert.CheckSignatureFrom(candidate) == nil {
			return candidate
		}
	}
	return nil
}

// isSignedBy reports whether an authority has signed the first certificate of a chain, or one of the others
// that lead to it.
func isSignedBy(chain, authorities []*x509.Certificate) bool {
	cert := chain[0]
	for range chain {
		if issuerOf(cert, authorities) != nil {
			return true
		}
		cert = issuerOf(cert, chain[1:])
		if cert == nil {
			return false
		}
	}

	return false
}

// readCertificates returns the certificates of a file, at least one.
func readCertificates(c *command.Call, name string) ([]*x509.Certificate, error) {
	content, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates(content)
	if err != nil {
		return nil, structs.Invalidf("%s %w", name, err)
	}
	return certs, nil
}

func describe(cert *x509.Certificate) certificate {
	info := certificate{
		Authority:   cert.IsCA,
		Subject:     cert.Subject.String(),
		Names:       cert.DNSNames,
		From:        cert.NotBefore,
		Until:       cert.NotAfter,
		LifeLeft:    lifeLeft(cert, show.Now()),
		Serial:      cert.SerialNumber.Text(16),
		Fingerprint: fingerprint(cert.Raw),
		Issuer:      cert.Issuer.String(),
		IssuerKeyID: fmt.Sprintf("%x", cert.AuthorityKeyId),
	}

	for _, ip := range cert.IPAddresses {
		info.Names = append(info.Names, ip.String())
	}

	id, err := pki.IdentityOf(cert)
	if err == nil { // else it is an authority, or of another tool
		info.Identity = id.String()
		info.Region = id.Region
		info.Role = id.Role
		info.ID = id.ID
	}

	return info
}

// lifeLeft returns the percentage of the life of a certificate that is left: 100 before its begin, 0 after
// its end.
func lifeLeft(cert *x509.Certificate, now time.Time) float64 {
	all := cert.NotAfter.Sub(cert.NotBefore)
	left := min(cert.NotAfter.Sub(now), all)
	if left <= 0 {
		return 0
	}
	return 100 * float64(left) / float64(all)
}

func printCertificate(c *command.Call, info certificate) {
	left := command.Percent(info.LifeLeft)
	switch now := show.Now(); {
	case now.Before(info.From):
		left = "not valid yet"
	case now.After(info.Until):
		left = "none: it is no longer valid"
	}

	kind := string(info.Role)
	if info.Authority {
		kind = "authority"
	}

	c.Pairs(
		"Identity", info.Identity,
		"Kind", kind,
		"Subject", info.Subject,
		"Names", strings.Join(info.Names, ", "),
		"Valid from", show.Time(info.From),
		"Valid until", show.Time(info.Until),
		"Life left", left,
		"Serial", info.Serial,
		"Fingerprint", info.Fingerprint,
		"Issuer", info.Issuer,
		"Key ID of the issuer", info.IssuerKeyID,
		"Fingerprint of the issuer", info.IssuerFingerprint,
	)
}

// fingerprint returns the digest by which other tools name a certificate, too.
func fingerprint(der []byte) string { return fmt.Sprintf("%x", sha256.Sum256(der)) }
