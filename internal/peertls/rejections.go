package peertls

import (
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/netfault"
)

const (
	// rejectionPeriod is the least time between two warnings of rejected connections of one host.
	rejectionPeriod = time.Minute
	// maxRejectedHosts is the most hosts of which the log tells in one period.
	maxRejectedHosts = 100
)

// Rejections bounds how often the log tells of rejected connections: others decide how many there are. One
// host does not use up the warnings of another. It is safe for concurrent use.
type Rejections struct {
	mu    sync.Mutex
	since time.Time
	hosts map[string]bool // told of since then
}

// Due reports whether the log is to tell of another rejection of a host. remote may have a port.
func (r *Rejections) Due(remote net.Addr) bool {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		host = remote.String()
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.hosts == nil || now.Sub(r.since) >= rejectionPeriod {
		r.since = now
		r.hosts = map[string]bool{}
	}

	if r.hosts[host] || len(r.hosts) >= maxRejectedHosts {
		return false
	}

	r.hosts[host] = true
	return true
}

// WarnOfRejections returns a configuration of Keys.Server that tells the log why it rejects a certificate.
// The caller learns no reason from TLS.
func WarnOfRejections(config *tls.Config, logger hclog.Logger) *tls.Config {
	told := &Rejections{}
	port := config.Clone()
	port.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own, err := config.GetConfigForClient(hello)
		if err != nil {
			return nil, err
		}
		verify := own.VerifyConnection
		own.VerifyConnection = func(s tls.ConnectionState) error {
			err := verify(s)
			if remote := hello.Conn.RemoteAddr(); err != nil && told.Due(remote) {
				logger.Warn("rejected the certificate of a caller. More rejections of its host in this minute are not logged", "remote", remote.String(), "error", netfault.Plain(err))
			}
			return err
		}
		return own, nil
	}

	return port
}
