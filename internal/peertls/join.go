package peertls

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"slices"

	"berth/internal/pki"
	"berth/structs"
)

// Joins returns the TLS configuration of the port on which machines join that have no certificate. The server
// also sends the certificates of its authorities, which they do not have.
func (k *Keys) Joins() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// A machine joins once: a ticket would be of no use.
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			m := k.current.Load()
			cert := m.cert
			cert.Certificate = slices.Clone(cert.Certificate)
			for _, authority := range m.authorities {
				cert.Certificate = append(cert.Certificate, authority.Raw)
			}
			return &cert, nil
		},
	}
}

// JoinClient returns how a machine connects that joins. It has no certificate, and takes a server of the
// region whose certificate the authority with a fingerprint has signed.
func JoinClient(region string, authority [sha256.Size]byte) Client {
	return func(*Conn) *tls.Config {
		return &tls.Config{
			MinVersion: tls.VersionTLS13,
			// VerifyConnection verifies the certificate, without the name of the host.
			InsecureSkipVerify: true, //nolint:gosec // see above
			VerifyConnection: func(s tls.ConnectionState) error {
				return verifyServer(s.PeerCertificates, region, authority)
			},
		}
	}
}

// verifyServer verifies the chain of a server, in which the authority is.
func verifyServer(chain []*x509.Certificate, region string, authority [sha256.Size]byte) error {
	root := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return pki.Fingerprint(c) == authority })
	if root < 1 { // not the certificate of the server itself
		return structs.Deniedf("the server is not of the cluster of the join token: its authority is another one")
	}

	roots := x509.NewCertPool()
	roots.AddCert(chain[root])
	err := verifyChain(chain, roots, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return err
	}

	id, err := identityIn(region, chain[0])
	if err != nil {
		return err
	}

	return Roles(pki.RoleServer)(id)
}
