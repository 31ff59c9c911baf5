package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"slices"
	"time"

	"berth/structs"
	"berth/structs/validate/field"
)

const (
	// MaxLife is the longest life of a certificate, also of an authority.
	MaxLife = 3650 * 24 * time.Hour

	// MachineLife is the life of a certificate that the servers sign for a machine, from its request on.
	MachineLife = 24 * time.Hour

	// MaxNames is the largest number of names that a request has.
	MaxNames = 64

	// ClockSkew is the time by which a certificate begins earlier than its request says: a machine whose
	// clock is late takes it at once.
	ClockSkew = time.Hour

	maxDNSName    = 253 // of the domain name system
	maxRegion     = 64  // so that the names of Name are short enough
	maxCommonName = 64  // of RFC 5280
)

// dnsForm is the form of a name in the domain name system, also with the underscores that some networks have.
// The URI of an identity takes each such name as its host.
var dnsForm = field.Pattern(`^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?` +
	`(\.[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?)*$`)

// Request is what a certificate says.
type Request struct {
	Identity
	Names []string      // DNS names and IP addresses beside the role's; at most MaxNames
	From  time.Time     // the certificate begins an hour earlier
	Life  time.Duration // from From on: a second to MaxLife
	// Begin is a time before From at which the certificate begins instead, zero for none.
	Begin time.Time
}

// Name returns the DNS name that all holders of a role in a region have: server.<region>.berth.
func Name(role Role, region string) string { return string(role) + "." + region + ".berth" }

// Validate returns an error that names the faults of a request.
func (r Request) Validate() error {
	f := field.New("the certificate")
	r.Identity.check(f)
	checkTimes(f, r.From, r.Life)
	for _, name := range field.FirstOf(f, "names", r.Names, MaxNames) {
		f.Require(net.ParseIP(name) != nil || isDNSName(name),
			"name %q must be an IP address, or a DNS name of letters, digits, dashes and dots", name)
	}

	f.Require(r.Role != RoleOperator || len(r.Names) == 0,
		"an operator has no names: nobody connects to it")
	return f.Err()
}

func checkRegion(f field.Errors, region string) {
	f.Require(isDNSName(region) && len(region) <= maxRegion,
		"region %q must have 1 to %d letters, digits, dashes and dots, as a DNS name has", region, maxRegion)
}

func isDNSName(name string) bool { return len(name) <= maxDNSName && dnsForm().MatchString(name) }

func checkTimes(f field.Errors, from time.Time, life time.Duration) {
	f.Require(!from.IsZero(), "its begin is required")
	f.Require(life >= time.Second, "a life of %s; expected at least a second", life)
	f.Require(life <= MaxLife, "a life of %s; at most %s are allowed", life, MaxLife)
}

// checkKey bounds the keys that others present: each one is verified in every handshake.
func checkKey(pub crypto.PublicKey) error {
	switch key := pub.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	}

	return structs.Invalidf("the key of a certificate must be ECDSA P-256, ECDSA P-384 or Ed25519")
}

// template returns the certificate for a valid request.
func (r Request) template(pub crypto.PublicKey) *x509.Certificate {
	cert := &x509.Certificate{
		SerialNumber:          newSerial(),
		URIs:                  []*url.URL{r.URI()},
		NotBefore:             earlier(r.From.Add(-ClockSkew), r.Begin),
		NotAfter:              r.From.Add(r.Life),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		SubjectKeyId:          keyID(pub),
	}

	// The name is for people alone. Without one the identity is in the URI, as in each certificate.
	if len(r.ID) <= maxCommonName {
		cert.Subject = pkix.Name{CommonName: r.ID}
	}

	// An operator serves nothing, so its certificate must not pass for a server's.
	if r.Role == RoleOperator {
		return cert
	}

	cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	for _, name := range r.allNames() {
		ip := net.ParseIP(name)
		if ip != nil {
			cert.IPAddresses = append(cert.IPAddresses, ip)
		} else {
			cert.DNSNames = append(cert.DNSNames, name)
		}
	}

	return cert
}

// earlier returns the earlier one of two times. The second may be zero for none.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// allNames returns the names of a server or a node, each one once.
func (r Request) allNames() []string {
	// Programs on the machine itself connect by the names of the loopback.
	all := []string{Name(r.Role, r.Region), "localhost", "127.0.0.1", "::1"}
	for _, name := range r.Names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// keyID returns the ID of a key in certificates.
func keyID(pub crypto.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil // no key that checkKey takes
	}
	sum := sha256.Sum256(der)
	return sum[:20]
}
