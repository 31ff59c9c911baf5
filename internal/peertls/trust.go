package peertls

import (
	"bytes"
	"crypto/x509"

	"berth/internal/pki"
)

// Follows reports whether this agent trusts exactly some authorities, given by their IDs, and has a
// certificate of the first of them.
func (k *Keys) Follows(ids []string) bool {
	m := k.current.Load()
	own := map[string]*x509.Certificate{}
	for _, authority := range m.authorities {
		own[pki.AuthorityID(authority)] = authority
	}

	for _, id := range ids {
		if own[id] == nil {
			return false
		}
	}

	return len(own) == len(ids) && pki.HasSigned(own[ids[0]], m.cert.Leaf)
}

// Issuer returns the ID of the authority of ca_file that has signed the certificate of this agent, "" if none
// has signed it itself.
func (k *Keys) Issuer() string {
	m := k.current.Load()
	for _, authority := range m.authorities {
		if pki.HasSigned(authority, m.cert.Leaf) {
			return pki.AuthorityID(authority)
		}
	}
	return ""
}

// closeUntrusted closes the open connections whose certificates this agent no longer trusts. It is called
// after the authorities have changed: a handshake is checked after the change or is found here.
func (k *Keys) closeUntrusted() {
	for conn, chain := range k.open.all() {
		if k.checkTrust(chain) != nil {
			k.logClose("closing a connection: the authority of the other end is no longer trusted", conn,
				chain[0])
			_ = conn.Close()
		}
	}
}

// checkTrust returns an error, denied, if no authority leads to the first certificate of a chain.
func (k *Keys) checkTrust(chain []*x509.Certificate) error {
	return verifyChain(chain, k.current.Load().roots, x509.ExtKeyUsageAny)
}

// replaced reports whether a former certificate of this agent is of another authority than the present one.
func (k *Keys) replaced(former *x509.Certificate) bool {
	return !bytes.Equal(former.AuthorityKeyId, k.current.Load().cert.Leaf.AuthorityKeyId)
}
