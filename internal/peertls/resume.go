package peertls

import "crypto/tls"

// maxSessions is the most sessions that an agent keeps to resume, one for each address. It connects to the
// servers, and a server also to the HTTP ports of nodes.
const maxSessions = 256

// resumption has the sessions of one material that can be resumed. A resumed session has the certificates of
// its first handshake. The sessions end with the material of either end, so that a new connection always has
// the certificates that a handshake would send. The library asks VerifyConnection for a resumed session, too.
type resumption struct {
	tickets  *tls.Config            // its keys of tickets, which the library rotates, are for all ports
	sessions tls.ClientSessionCache // sessions with other agents, by their address
}

func newResumption() resumption {
	return resumption{
		tickets:  &tls.Config{},
		sessions: tls.NewLRUClientSessionCache(maxSessions),
	}
}

// serve makes a connection of a port use the material, and resume sessions of the material alone.
func (m *material) serve(conn *tls.Config) {
	conn.Certificates = []tls.Certificate{m.cert}
	conn.WrapSession = m.tickets.EncryptTicket
	conn.UnwrapSession = m.tickets.DecryptTicket
}
