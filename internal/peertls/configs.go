package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"berth/internal/pki"
	"berth/structs"
)

// Accept decides whether this agent has a connection with the holder of a certificate. The error is denied.
type Accept func(pki.Identity) error

// Roles accepts the holders of some roles.
func Roles(roles ...pki.Role) Accept {
	return func(id pki.Identity) error {
		for _, role := range roles {
			if id.Role == role {
				return nil
			}
		}
		return structs.Deniedf("%s has no access here; expected the role %s", id, roles)
	}
}

// Server returns the TLS configuration of a port. Each connection has a certificate that accept accepts, and
// ends with it. The connections of the port are of the type Conn.
func (k *Keys) Server(accept Accept) *tls.Config {
	return k.server(tls.RequireAnyClientCert, accept)
}

// ServerOptional returns the TLS configuration of a port on which a certificate is optional.
func (k *Keys) ServerOptional(accept Accept) *tls.Config {
	return k.server(tls.RequestClientCert, accept)
}

// server returns a configuration that verifies certificates itself, against the present authorities. The
// library calls VerifyConnection for a resumed session, too: its certificate may have expired since.
func (k *Keys) server(auth tls.ClientAuthType, accept Accept) *tls.Config {
	each := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: auth,
	}

	verify := func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 && auth == tls.RequestClientCert {
			return nil
		}
		return k.verify(s.PeerCertificates, x509.ExtKeyUsageClientAuth, accept)
	}

	port := each.Clone()
	port.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		conn, ok := hello.Conn.(*Conn)
		if !ok {
			return nil, structs.Internalf("a port with TLS has a connection that does not end with its certificate")
		}
		own := each.Clone()
		k.current.Load().serve(own)
		own.VerifyConnection = func(s tls.ConnectionState) error {
			err := verify(s)
			if err != nil {
				return err
			}
			return k.hold(conn, s)
		}
		return own, nil
	}

	return port
}

// Client makes the TLS configuration of each connection that a machine opens. Its connections are of the
// type Conn.
type Client func(*Conn) *tls.Config

// Client returns how this agent connects to an agent that accept accepts. The certificate of the other end
// needs no name of the host.
func (k *Keys) Client(accept Accept) Client {
	return func(conn *Conn) *tls.Config {
		m := k.current.Load()
		conn.dialed = &dialed{
			keys: k,
			own:  m.cert.Leaf,
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &m.cert, nil
			},
			ClientSessionCache: m.sessions,
			// VerifyConnection verifies the certificate, without the name of the host.
			InsecureSkipVerify: true, //nolint:gosec // see above
			VerifyConnection: func(s tls.ConnectionState) error {
				return k.verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth, accept)
			},
		}
	}
}

// verify verifies the chain of another agent and its identity.
func (k *Keys) verify(chain []*x509.Certificate, use x509.ExtKeyUsage, accept Accept) error {
	if len(chain) == 0 {
		return structs.Deniedf("the other end has sent no certificate")
	}

	err := verifyChain(chain, k.current.Load().roots, use)
	if err != nil {
		return err
	}

	id, err := identityIn(k.region, chain[0])
	if err != nil {
		return err
	}

	return accept(id)
}

// verifyChain verifies the first certificate of a chain. The others lead to its authority.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage) error {
	return verifyChainAt(time.Now(), chain, roots, use)
}

// verifyChainAt is verifyChain at a time.
func verifyChainAt(
	at time.Time, chain []*x509.Certificate, roots *x509.CertPool, use x509.ExtKeyUsage,
) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}

	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         roots,
		Intermediates: between,
		CurrentTime:   at,
		KeyUsages:     []x509.ExtKeyUsage{use},
	})
	if err != nil {
		return plainFault(err, chain[0])
	}

	return nil
}

// identityIn returns the identity in a verified certificate of a region.
func identityIn(region string, cert *x509.Certificate) (pki.Identity, error) {
	id, err := pki.IdentityOf(cert)
	if err == nil && id.Region != region {
		err = structs.Deniedf("%s is of another region; this is region %q", id, region)
	}
	return id, err
}

// plainFault explains why a certificate is not valid.
func plainFault(err error, cert *x509.Certificate) error {
	now := time.Now().UTC()
	clock := now.Format(time.RFC3339)
	name := "the certificate"
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Cert != nil && invalid.Cert != cert {
		cert = invalid.Cert
		name = fmt.Sprintf("the authority %q of the certificate", cert.Subject)
	}

	switch {
	case now.Before(cert.NotBefore):
		return structs.Deniedf("%s is valid from %s on, and the clock of this machine says %s; "+
			"set the clocks of both machines", name, cert.NotBefore.Format(time.RFC3339), clock)
	case now.After(cert.NotAfter):
		return structs.Deniedf("%s expired at %s, and the clock of this machine says %s; "+
			"an agent with renew = true renews it by itself, and its log says what hinders it; "+
			"without it make a new one with `berth tls cert create`, or set the clock",
			name, cert.NotAfter.Format(time.RFC3339), clock)
	}
	var unknown x509.UnknownAuthorityError
	if errors.As(err, &unknown) {
		return structs.Deniedf("no authority in ca_file leads to the certificate; a machine that was off for more "+
			"than 30 days while the authority was replaced joins again, with a token of `berth server "+
			"join-token create` or `berth node join-token create` (docs/operations/certificates.md): %w", err)
	}
	return structs.Deniedf("the certificate: %w", err)
}

// PeerOf returns the identity of the other end of a connection. It returns false for a connection without TLS
// or without a certificate.
func PeerOf(s tls.ConnectionState) (pki.Identity, bool) {
	if len(s.PeerCertificates) == 0 {
		return pki.Identity{}, false
	}
	id, err := pki.IdentityOf(s.PeerCertificates[0])
	return id, err == nil
}
