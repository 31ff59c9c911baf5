package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"berth/agent/certificate"
	"berth/endpoints/join"
	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/server"
	"berth/server/authority"
	"berth/server/gossip"
	"berth/server/signing"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// This file has the decisions of the agent about TLS: which ports speak it, which certificates each port and
// each connection takes, and how the certificate of the agent is renewed. Package peertls has the mechanisms.

// openKeys reads the TLS certificate of the agent, if the configuration has one. An agent with a server needs
// the certificate of a server: its node calls that one alone.
func (a *Agent) openKeys() (err error) {
	cfg := a.config()
	if !cfg.TLS.On() {
		a.warnOfOpenPorts()
		return nil
	}

	role := pki.RoleNode
	if cfg.Server.Enabled {
		role = pki.RoleServer
	}

	a.keys, err = peertls.Open(cfg.TLS, cfg.Region, role, a.logger.Named("tls"))
	if err == nil && cfg.TLS.PlainLoopback {
		a.logger.Warn("the HTTP API answers loopback addresses without TLS (plain_loopback); each task "+
			"with the network of this machine can use it", "setting", "tls")
	}

	return err
}

// openAddress returns an address beyond loopback on which the agent listens, "" if there is none.
func (c *Config) openAddress() string {
	// A node listens on the HTTP port alone.
	bound := []string{c.Addresses.HTTP}
	if c.Server.Enabled {
		bound = append(bound, c.Addresses.RPC, c.Addresses.Serf)
	}

	for _, own := range bound {
		host := cmp.Or(own, c.BindAddr)
		addr, err := netip.ParseAddr(host)

		// A name may resolve to any address, so it counts as open.
		if err != nil || !addr.IsLoopback() {
			return host
		}
	}

	return ""
}

// checkOpenPorts rejects a configuration that opens ports to the network and says nothing about TLS:
// everybody who reaches them may do everything. It also rejects access control there without TLS, also where
// the configuration says so: whoever reaches the RPC port counts as a machine of the cluster. In prefer the
// cluster is on its way to require. A server without access control in its configuration follows its cluster.
func (c *Config) checkOpenPorts() error {
	open := c.openAddress()
	if open != "" && c.Server.Enabled && c.enforces() && !c.TLS.On() {
		return fmt.Errorf("acl: the server listens on %s without TLS, and access control does not protect that "+
			"port: whoever reaches it counts as a machine of the cluster; set tls { mode = \"require\" } with the "+
			"files of a certificate (docs/operations/tls.md), or bind_addr = \"127.0.0.1\"", open)
	}
	if c.TLS.Mode != peertls.ModeUnset || open == "" {
		return nil
	}
	return fmt.Errorf("tls: the agent listens on %s without TLS, and everybody who reaches its ports may do "+
		"everything; set tls { mode = \"require\" } with the files of a certificate "+
		"(docs/operations/tls.md), or bind_addr = \"127.0.0.1\", or tls { mode = \"off\" } if you trust all of that network", open)
}

// enforces reports whether the server of the agent rejects requests without a token: by its configuration, or
// since its cluster did so last. server.New names a damaged file.
func (c *Config) enforces() bool {
	kept, err := server.KeptMode(c.serverDir())
	return c.ACL.OwnMode() == access.ModeEnforce || err == nil && kept == access.ModeEnforce
}

// warnOfOpenPorts says what an agent without TLS risks.
func (a *Agent) warnOfOpenPorts() {
	open := a.config().openAddress()
	if open == "" {
		return
	}
	a.logger.Warn("the ports of this agent are open to the network without TLS: everybody who reaches them "+
		"may register jobs, claim volumes and run programs as root (docs/operations/tls.md)", "address", open)
}

// machines returns how this server gives machines their certificates.
func (a *Agent) machines() join.Settings {
	cfg := a.config()
	return join.Settings{
		Authority: authority.Files{
			Cert: cfg.TLS.CAFile,
			Key:  cfg.TLS.CAKeyFile,
		},
		TLS:    a.keys.Joins(),
		Region: cfg.Region,
		// A machine that joins as a server needs both keys. They are read at each request, because they may
		// change.
		Secrets: func() (join.Secrets, error) {
			gossipKey, err := gossip.PrimaryKey(cfg.Server.DataDir)
			if err != nil {
				return join.Secrets{}, err
			}

			key, err := cfg.Server.Keyring.FileText()
			return join.Secrets{
				GossipKey: gossipKey,
				Keyring:   key,
			}, err
		},
	}
}

// runKeys keeps the certificate of the agent up to date until ctx ends.
func (a *Agent) runKeys(ctx context.Context) error {
	var following sync.WaitGroup
	if a.server != nil {
		following.Go(func() { certificate.FollowStore(ctx, a.keys, a.server.Store()) })
		following.Go(func() {
			certificate.FollowRemoved(ctx, a.keys, a.server.Store(), a.server.Signing.Removed)
		})
		following.Go(func() { a.renewOnServer(ctx) })
	} else {
		// A node has no rows. It asks the servers, and rejects a revoked certificate when it hears of it.
		follower := &certificate.Follower{
			Keys:   a.keys,
			Caller: a.caller,
			Logger: a.logger.Named("tls"),
			News:   make(chan struct{}, 1),
		}

		following.Go(func() { follower.Run(ctx) })
		following.Go(func() { a.renewOnNode(ctx, follower) })
	}

	// It ends with ctx, as the others do.
	a.keys.Run(ctx)
	following.Wait()
	return nil
}

// renewOnServer renews the certificate of a server, if the configuration says so. The server signs its own,
// so that it needs no leader, and does it as soon as it has applied another authority.
func (a *Agent) renewOnServer(ctx context.Context) {
	if !a.config().TLS.Renew {
		return
	}

	feed := a.server.Store().Subscribe(1, schema.AuthorityRows)
	defer feed.Close()
	r := renewerOf(a)
	r.Trusted = func() []string {
		// The changes are taken before the rows are read, so that a later one makes the feed ready again.
		feed.TakeChanges()
		return a.server.Signing.Follows(a.keys.Issuer())
	}
	r.News = feed.Ready()
	// The servers are few, and none has to wait for another.
	r.Spread = func() time.Duration { return 0 }
	r.Run(ctx)
}

// renewOnNode renews the certificate of a node, if the configuration says so. The nodes spread their renewals
// for another authority over a lease.
func (a *Agent) renewOnNode(ctx context.Context, follower *certificate.Follower) {
	if !a.config().TLS.Renew {
		return
	}

	r := renewerOf(a)
	r.Trusted = follower.Trusted
	r.News = follower.News
	r.Spread = func() time.Duration {
		lease, _ := a.client.Lease()
		return lease
	}
	r.Run(ctx)
}

// renewerOf renews the certificate of an agent by the server of its process, or else by another one.
func renewerOf(a *Agent) certificate.Renewer {
	r := certificate.Renewer{Keys: a.keys, Sign: a.renewNode, Logger: a.logger.Named("tls")}
	if a.server != nil {
		r.Sign = a.renewServer
	}
	return r
}

// renewTimeout is the time of a renewal at one server, with an election meanwhile.
const renewTimeout = 20 * time.Second

// renewNode has a server sign. A certificate that is not valid now is no proof: the node then uses the way of
// machines that join, at the servers that it knows. The answer decides which servers this node trusts, so
// both ways connect with TLS alone, in each mode.
func (a *Agent) renewNode(ctx context.Context, csr []byte) (cert, authorities string, err error) {
	client := a.keys.Client(peertls.Roles(pki.RoleServer))
	if a.keys.Lapsed(time.Now()) {
		return a.renewAtServers(func(addr string) (*cluster.CertificateSignResponse, error) {
			return rpc.RenewCertificate(ctx, addr, client, csr)
		})
	}

	// This pool connects with TLS alone. The other calls of the node may be plain in some modes.
	pool := rpc.NewPool(rpc.SecureDialer(rpc.Dial, client, false), a.logger.Named("tls"), nil)
	defer pool.Close()
	return a.renewAtServers(func(addr string) (*cluster.CertificateSignResponse, error) {
		ctx, cancel := context.WithTimeout(ctx, renewTimeout)
		defer cancel()
		return rpc.Call(ctx, pool.At(addr), cluster.CertificateRenew, &cluster.CertificateRenewRequest{
			NodeID: a.keys.NodeID(),
			CSR:    csr,
		})
	})
}

// renewAtServers makes a call to one server after the other, until one of them signs.
func (a *Agent) renewAtServers(
	call func(addr string) (*cluster.CertificateSignResponse, error),
) (cert, authorities string, err error) {
	err = structs.Unavailablef("no server is known (client.servers)")
	for _, addr := range a.client.Servers() {
		var answer *cluster.CertificateSignResponse
		answer, err = call(addr)
		if err == nil {
			return answer.Certificate, answer.Authorities, nil
		}

		if structs.IsKind(err, structs.KindDenied) {
			break // each server says the same
		}
	}

	return "", "", err
}

// renewServer has the server of this process sign. A revoked server must not: its next certificate would not
// be revoked.
func (a *Agent) renewServer(ctx context.Context, csr []byte) (cert, authorities string, err error) {
	err = a.keys.CheckOwn() // it would sign for itself under another serial number
	if err != nil {
		return "", "", err
	}
	return a.server.Signing.Sign(ctx, csr, signing.Former{
		Names: a.keys.Names(),
		End:   a.keys.Expires(),
	})
}

// reloadKeys reads the files of the TLS certificate again.
func (a *Agent) reloadKeys() error {
	if a.keys == nil {
		return nil
	}
	_, err := a.keys.Reload()
	if err != nil {
		a.logger.Error("failed to read the TLS certificate again; the former one stays in use", "error", err)
		return structs.Preconditionf("the TLS certificate stays as it is: %w", err)
	}
	return nil
}

// openPort returns the listeners of the HTTP port. With TLS a caller is an operator or, for a request that an
// agent forwards, a server.
func (a *Agent) openPort() []net.Listener {
	cfg := a.config()
	if a.keys == nil {
		return []net.Listener{a.ln}
	}

	callers := peertls.Roles(pki.RoleOperator, pki.RoleServer)
	config := a.keys.Server(callers)
	if !cfg.TLS.Required() {
		// Without required TLS a caller may connect without a certificate, or without TLS.
		config = a.keys.ServerOptional(callers)
	}

	// A handshake that fails never becomes a request, so only this tells an operator of it.
	config = peertls.WarnOfRejections(config, a.logger.Named("http"))
	if cfg.TLS.Required() && !cfg.TLS.PlainLoopback {
		return []net.Listener{tls.NewListener(peertls.Listen(a.ln), config)}
	}

	// One port has connections of both kinds. The first byte tells them apart.
	a.splitter = peertls.NewSplitter(a.ln, peertls.SplitConfig{
		AllowPlain: func(from net.Addr) bool {
			return !cfg.TLS.Required() || isLoopback(from)
		},
		FirstByte:   headTime,
		MostPerHost: cfg.Limits.HTTPMaxConnsPerClient,
		Logger:      a.logger.Named("http"),
	})
	return []net.Listener{
		a.splitter.Plain(),
		tls.NewListener(peertls.Listen(a.splitter.Secure()), config),
	}
}

func isLoopback(addr net.Addr) bool {
	from, err := netip.ParseAddrPort(addr.String())
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// dialServers returns a dialer that takes the certificates of servers alone.
func (a *Agent) dialServers() rpc.Dialer {
	client := a.keys.Client(peertls.Roles(pki.RoleServer))
	settings := a.config().TLS
	dial := rpc.SecureDialer(rpc.Dial, client, !settings.Required())
	if !settings.Renew || !settings.Required() {
		return dial
	}

	return func(addr string, timeout time.Duration) (net.Conn, error) {
		if a.keys.Lapsed(time.Now()) {
			return nil, structs.Unavailablef("the TLS certificate of this agent %s, and is not renewed yet",
				a.keys.Validity(time.Now()))
		}

		return dial(addr, timeout)
	}
}

// connect opens a connection to the HTTP port of the agent of a node. The node may be part of a server.
func (a *Agent) connect(ctx context.Context, address, nodeID string) (net.Conn, error) {
	plain := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}

	if a.keys == nil {
		return plain(ctx)
	}

	d := peertls.Dialing{
		Connect: plain,
		TLS:     a.keys.Client(isAgentOf(nodeID)),
		// A node of an earlier configuration may still answer without TLS, unless the mode forbids it.
		Plain: !a.config().TLS.Required(),
	}

	return d.Dial(ctx)
}

// isAgentOf accepts the certificates of a node and of servers, with the ID "" of servers alone.
func isAgentOf(nodeID string) peertls.Accept {
	return func(id pki.Identity) error {
		if id.Role == pki.RoleServer || id.Role == pki.RoleNode && id.ID == nodeID {
			return nil
		}
		return structs.Deniedf("%s answers at the HTTP address of node %s", id, nodeID)
	}
}
