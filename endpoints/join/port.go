package join

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/loadshed"
	"berth/internal/pki"
	"berth/rpc"
	"berth/server/authority"
	"berth/structs"
	"berth/structs/cluster"
)

const (
	maxMessage = 64 << 10 // bytes of a request; a token and a signing request are small
	maxConns   = 256      // machines that join at once
	perHost    = 16       // of one host: an idle one holds its places for connTime
	perMinute  = 120      // connections of one host in a minute: many machines may share an address
	maxHosts   = 10_000   // whose connections are counted; beyond them all are rejected for a minute
	connTime   = 30 * time.Second
)

// Settings are how machines get their certificates.
type Settings struct {
	// Authority is the authority that the first leader takes into the rows.
	Authority authority.Files
	TLS       *tls.Config // of machines without a certificate; nil: none can join
	Region    string
	// Secrets returns the secrets that all servers share, for a server that joins.
	Secrets func() (Secrets, error)
}

// Secrets are the secrets that all servers share.
type Secrets struct {
	GossipKey structs.Secret // with which the servers encrypt their gossip; "" for none
	Keyring   structs.Secret // the content of the file that opens the keyring
}

// Cluster is what a port needs of its server.
type Cluster interface {
	rpc.Caller
	// Servers lists the RPC addresses of the servers that are alive.
	Servers() []string
	// Members lists the servers as the gossip sees them.
	Members() []*cluster.AgentMember
}

// Port serves the connections of machines without a certificate. It serves Machine.Join and Machine.Renew,
// and nothing else.
type Port struct {
	Settings
	cluster Cluster
	logger  hclog.Logger
	rpc     *rpc.Server
	conns   loadshed.Permits

	mu    sync.Mutex
	since time.Time
	hosts map[string]int // connections since then
	open  map[string]int // connections that are open, of hosts that have any
}

// NewPort returns a port of a server, which forwards its calls to the leader.
func NewPort(s Settings, c Cluster, logger hclog.Logger) *Port {
	p := &Port{
		Settings: s,
		cluster:  c,
		logger:   logger,
		conns:    make(loadshed.Permits, maxConns),
		open:     map[string]int{},
	}
	p.rpc = rpc.NewServer(logger, rpc.Handle(cluster.Join, p.join), rpc.Handle(cluster.RenewLapsed, p.renew))
	limits := rpc.DefaultLimits()
	limits.Calls = 1
	limits.Waiting = 1
	limits.AllCalls = maxConns
	limits.Message = maxMessage
	p.rpc.SetLimits(limits)
	return p
}

// ServeConn serves a connection after its handshake, for a bounded time.
func (p *Port) ServeConn(conn net.Conn) {
	host := hostOf(conn.RemoteAddr())
	if !p.admit(host, time.Now()) {
		loadshed.CountRejected("join", 1)
		_ = conn.Close()
		return
	}
	defer p.leave(host)
	_ = conn.SetDeadline(time.Now().Add(connTime))
	p.rpc.ServeConn(conn)
}

// Close ends all connections and waits for them.
func (p *Port) Close() { p.rpc.Close() }

// hostOf returns the address of a host. One host may have all addresses of a /64 of IPv6.
func hostOf(remote net.Addr) string {
	to, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return remote.String()
	}
	ip := to.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	return netip.PrefixFrom(ip, 64).Masked().String()
}

// admit counts a connection of a host and gives it a place until leave, or reports that a bound does not
// allow it.
func (p *Port) admit(host string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hosts == nil || now.Sub(p.since) >= time.Minute {
		p.since = now
		p.hosts = map[string]int{}
	}
	if p.hosts[host] == 0 && len(p.hosts) >= maxHosts {
		return false
	}
	p.hosts[host]++
	if p.hosts[host] > perMinute || p.open[host] >= perHost || !p.conns.TryEnter() {
		return false
	}
	p.open[host]++
	return true
}

// leave gives back the place of a connection.
func (p *Port) leave(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns.Leave()
	p.open[host]--
	if p.open[host] == 0 {
		delete(p.open, host)
	}
}

// join has the leader sign the certificate of a machine. The secret of the token stays here: the leader
// compares its hash. The secrets of servers come from this server, over the connection that it has verified
// as one of TLS.
func (p *Port) join(ctx context.Context, req *cluster.JoinRequest) (*cluster.JoinResponse, error) {
	token, err := pki.ParseJoinToken(string(req.Token))
	if err != nil {
		return nil, err
	}
	csr, err := pki.ParseCSR(req.CSR)
	if err != nil {
		return nil, err
	}
	if token.Region != p.Region {
		return nil, structs.Deniedf("the join token is of region %q; this is region %q",
			token.Region, p.Region)
	}
	var secrets Secrets
	if csr.Identity.Role == pki.RoleServer {
		secrets, err = p.Secrets()
	}
	if err != nil {
		return nil, err
	}

	// The leader compares the hash of the token, so this server asks for the machine.
	signed, err := rpc.Call(rpc.Inside(ctx), p.cluster, cluster.CertificateSign, &cluster.CertificateSignRequest{
		TokenID:   token.ID,
		TokenHash: token.Hash(),
		CSR:       req.CSR,
		NodeName:  req.NodeName,
		NodePool:  req.NodePool,
	})
	if err != nil {
		return nil, err
	}
	p.logger.Info("a machine has joined", "identity", csr.Identity.String(), "token", token.ID)
	resp := &cluster.JoinResponse{
		Certificate: signed.Certificate,
		Authorities: signed.Authorities,
		Servers:     p.cluster.Servers(),
		GossipKey:   secrets.GossipKey,
		Keyring:     secrets.Keyring,
	}
	if csr.Identity.Role == pki.RoleServer {
		resp.Gossip = gossipAddresses(p.cluster.Members())
	}
	resp.Index = signed.Index
	return resp, nil
}

// gossipAddresses lists the addresses of the servers that are alive.
func gossipAddresses(members []*cluster.AgentMember) (alive []string) {
	for _, m := range members {
		if m.Status == cluster.MemberAlive {
			alive = append(alive, net.JoinHostPort(m.Addr, strconv.Itoa(int(m.Port))))
		}
	}
	return alive
}

// renew has the leader sign the next certificate of a node whose present one has ended. The proof is the
// signature of the request, by the key of the record. A recorded request is of no use to anybody else: its
// answer is a certificate for a key that only the node has.
func (p *Port) renew(
	ctx context.Context, req *cluster.RenewLapsedRequest,
) (*cluster.CertificateSignResponse, error) {
	csr, err := pki.ParseCSR(req.CSR)
	if err != nil {
		return nil, err
	}
	if csr.Identity.Role != pki.RoleNode {
		return nil, structs.Deniedf("the signing request is of %s; only a node renews here", csr.Identity)
	}
	signed, err := rpc.Call(ctx, p.cluster, cluster.CertificateRenew, &cluster.CertificateRenewRequest{
		NodeID: csr.Identity.ID,
		CSR:    req.CSR,
	})
	if err == nil {
		p.logger.Info("a node has renewed a certificate that had ended", "identity", csr.Identity.String())
	}
	return signed, err
}
