package download

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// specialNetworks are networks of the machine itself, and of services of a cloud that know the secrets of its
// machines. Such a service also has link-local addresses.
var specialNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("::/127"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"),    // AWS
	netip.MustParsePrefix("fd20:ce::254/128"), // Google Cloud
	netip.MustParsePrefix("ff00::/8"),
}

// nat64 has an IPv4 address in the last four bytes of each of its addresses.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// ParseNetworks reads networks such as 10.0.0.0/8. The bits after the prefix are zero.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		// check compares the plain form of an IPv4 address.
		if err != nil || network != network.Masked() || network.Addr().Is4In6() {
			return nil, fmt.Errorf("%.80q is not a network such as 127.0.0.0/8 or ::1/128", text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// Rules are those for the connections of a download.
type Rules struct {
	// Networks are special networks, and addresses of the agent, that may be sources.
	Networks []netip.Prefix
	// AgentPorts are the ports of the agent. They are no sources at any address of the node.
	AgentPorts []int
	// Silence bounds the time in which a server sends nothing; 0 is no bound.
	Silence time.Duration
}

// guard opens the connections of a download. It rejects the special networks by the address that a name has
// at the connection, thus also after a redirect. The other addresses of the node are not special, because a
// server of artifacts may be there. But the agent trusts them: it rejects its own ports.
type guard struct {
	rules Rules
	// proxyOf returns the proxy of the agent's environment for a URL, nil if there is none.
	proxyOf func(*url.URL) (*url.URL, error)

	mu       sync.Mutex
	proxies  map[string]bool // the addresses of proxies that were used
	rejected error           // the first fault of a connection: git does not show it
}

// newGuard takes the proxies from the environment.
func newGuard(rules Rules) *guard {
	return &guard{
		rules:   rules,
		proxyOf: httpproxy.FromEnvironment().ProxyFunc(),
		proxies: map[string]bool{},
	}
}

// check rejects an address of a special network, or of the agent itself, that the rules do not allow.
func (g *guard) check(to netip.AddrPort) error {
	// An address is compared in one form: as IPv4 where IPv6 or NAT64 carries it, and without its zone.
	addr := to.Addr().Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}

	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	// A network that the operator allows wins over both rules below.
	if slices.ContainsFunc(g.rules.Networks, contains) {
		return nil
	}

	var err error
	if slices.ContainsFunc(specialNetworks, contains) {
		err = fmt.Errorf("no artifact comes from %s: the address is a loopback, link-local or multicast one, "+
			"or of a metadata service; client.artifact.allow_networks of the agent allows networks", addr)
	} else {
		err = g.checkAgent(addr, int(to.Port()))
	}
	if err != nil {
		g.keep(err)
	}

	return err
}

// keep stores the first fault of a connection.
func (g *guard) keep(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rejected == nil {
		g.rejected = err
	}
}

// checkAgent rejects the ports of the agent at the addresses that the node has now. The API asks for
// no token.
func (g *guard) checkAgent(addr netip.Addr, port int) error {
	if !slices.Contains(g.rules.AgentPorts, port) {
		return nil
	}
	// The node may have got an address since the agent started.
	list, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("listing the addresses of the node: %w", err)
	}
	for _, a := range list {
		network, err := netip.ParsePrefix(a.String())
		if err == nil && network.Addr() == addr { // else it is no address of IP, or of another interface
			return fmt.Errorf("no artifact comes from port %d of %s: the port is that of the agent of this "+
				"node; client.artifact.allow_networks of the agent allows networks", port, addr)
		}
	}
	return nil
}

// rejection returns the first fault of a connection, nil if there was none.
func (g *guard) rejection() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.rejected
}

// dial connects to HOST:PORT.
func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: 30 * time.Second,
		// Control gets the address after the name is resolved, right before the connection: no other answer
		// of DNS comes in between.
		Control: func(_, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return err
			}
			return g.check(to)
		},
	}

	if g.isProxy(address) {
		d.Control = nil // the agent names it
	}

	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}

	return &heardConn{conn, g}, nil
}

// heardConn is a connection that fails when the server is silent for too long. A download holds its slot of
// the node until it ends.
type heardConn struct {
	net.Conn
	guard *guard
}

func (c *heardConn) Read(p []byte) (int, error) {
	silence := c.guard.rules.Silence
	if silence > 0 {
		// Each read begins the time again.
		err := c.SetReadDeadline(time.Now().Add(silence))
		if err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the server %s has sent nothing for %s", c.RemoteAddr(), silence)
		c.guard.keep(err)
	}
	return n, err
}

// CloseWrite tells the server that it gets nothing more.
func (c *heardConn) CloseWrite() error {
	half, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	return half.CloseWrite()
}

// isProxy reports whether the agent has named the address as a proxy for a connection.
func (g *guard) isProxy(address string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proxies[address]
}

// proxy returns the proxy for a URL. A proxy resolves the names itself, so only a URL with an address is
// checked here.
func (g *guard) proxy(u *url.URL) (*url.URL, error) {
	to, err := netip.ParseAddrPort(addressOf(u))
	if err == nil {
		err = g.check(to)
		if err != nil {
			return nil, err
		}
	}

	// It is nil also for a host that no_proxy names.
	through, err := g.proxyOf(u)
	if err != nil {
		return nil, err
	}

	// dial does not check the address of a proxy, so a proxy must not be a source.
	if through == nil && g.isProxy(addressOf(u)) {
		return nil, fmt.Errorf("no artifact comes from %s: it is the proxy of the agent", u.Host)
	}

	if through == nil {
		return nil, nil
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	// dial does not check this address from now on.
	g.proxies[addressOf(through)] = true
	return through, nil
}

// addressOf returns the HOST:PORT that net/http connects to for a server or a proxy.
func addressOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// transport is an HTTP transport whose connections the guard opens.
func (g *guard) transport() *http.Transport {
	return &http.Transport{
		Proxy:               func(r *http.Request) (*url.URL, error) { return g.proxy(r.URL) },
		DialContext:         g.dial,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		DisableKeepAlives:   true,
	}
}
