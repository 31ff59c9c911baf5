package peertls

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"sync"
	"time"

	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

// Revoked returns the revocation of a certificate, nil if it is not revoked.
type Revoked func(cluster.CertificateRef) *cluster.Revocation

// SetRevoked sets how the keys learn whether a certificate is revoked. They ask at each handshake and in
// CloseRevoked.
func (k *Keys) SetRevoked(f Revoked) { k.revoked.Store(&f) }

// CheckOwn returns an error, denied, if the present certificate of this agent is revoked.
func (k *Keys) CheckOwn() error { return k.checkRevoked(k.current.Load().cert.Leaf) }

// CloseRevoked closes the open connections whose certificates are revoked. Call it after each change of the
// answers of Revoked: a handshake is checked before the change or is found here.
func (k *Keys) CloseRevoked() {
	for conn, chain := range k.open.all() {
		if k.checkRevoked(chain[0]) != nil {
			k.logClose("closing a connection: the certificate of the other end is revoked", conn, chain[0])
			_ = conn.Close()
		}
	}
}

// checkRevoked returns an error, denied, if a certificate is revoked.
func (k *Keys) checkRevoked(cert *x509.Certificate) error {
	revoked := k.revoked.Load()
	if revoked == nil {
		return nil
	}

	id, err := pki.IdentityOf(cert)
	if err != nil {
		return err
	}

	r := (*revoked)(cluster.CertificateRef{
		Role:    string(id.Role),
		ID:      id.ID,
		Serial:  pki.Serial(cert),
		KeyHash: pki.KeyHash(cert.PublicKey),
	})

	if r == nil {
		return nil
	}

	return structs.Deniedf("the certificate of %s with the serial number %s is revoked (%s)",
		id, pki.Serial(cert), r.ID)
}

// hold closes a connection when the certificate of its other end ends, is revoked or is no longer trusted. It
// returns an error, denied, if that has happened already.
func (k *Keys) hold(conn *Conn, s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return nil
	}

	chain := s.PeerCertificates
	cert := chain[0]
	end := time.AfterFunc(time.Until(cert.NotAfter), func() {
		k.logClose("closing a connection: the certificate of the other end has ended", conn, cert)
		_ = conn.Close()
	})

	k.open.add(conn, chain)
	held := conn.onClose(func() {
		end.Stop()
		k.open.remove(conn)
	})

	if !held {
		end.Stop()
		k.open.remove(conn)
		return nil
	}

	err := k.checkRevoked(cert) // after add: a later change is found by CloseRevoked
	if err == nil {
		err = k.checkTrust(chain) // likewise by closeUntrusted
	}

	return err
}

func (k *Keys) logClose(text string, conn *Conn, cert *x509.Certificate) {
	identity := ""
	id, err := pki.IdentityOf(cert)
	if err == nil {
		identity = id.String()
	}

	k.logger.Info(text,
		"remote", conn.RemoteAddr().String(),
		"identity", identity,
		"serial", pki.Serial(cert),
		"expires", cert.NotAfter)
}

// openConns are the open connections with the chains of their other ends.
type openConns struct {
	mu    sync.Mutex
	conns map[*Conn][]*x509.Certificate
}

func (o *openConns) add(conn *Conn, chain []*x509.Certificate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns = map[*Conn][]*x509.Certificate{}
	}
	o.conns[conn] = chain
}

func (o *openConns) remove(conn *Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

// all returns a copy, because Conn.Close removes.
func (o *openConns) all() map[*Conn][]*x509.Certificate {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.conns)
}
