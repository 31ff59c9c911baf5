package cluster

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Network connects the members. Each has its own address, and the path between any two can be cut, also in
// one direction. A cut loses datagrams and delays streams without an error, like a dead switch. After the
// repair the streams continue.
type Network struct {
	mu    sync.Mutex
	names map[string]string // by IP address
	cuts  map[path]chan struct{}
	links map[*link]bool
	held  map[path]int // pieces of data that a cut delays
	ended bool         // nothing connects any more
	pumps sync.WaitGroup
}

// path is one direction between two members.
type path struct{ from, to string }

func (p path) back() path { return path{p.to, p.from} }

var addresses atomic.Uint32

// NewNetwork returns a network without cuts.
func NewNetwork() *Network {
	return &Network{
		names: map[string]string{},
		cuts:  map[path]chan struct{}{},
		links: map[*link]bool{},
		held:  map[path]int{},
	}
}

// Address gives a member an IP address that no other member of the process has, and rarely another process.
// So a port of the address stays free after its release.
func (n *Network) Address(name string) string {
	i := addresses.Add(1)
	ip := fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()%128, 1+i/250, 1+i%250)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[ip] = name
	return ip
}

// Cut cuts the paths between one member and others.
func (n *Network) Cut(name string, others ...string) {
	for _, other := range others {
		n.CutOneWay(name, other)
		n.CutOneWay(other, name)
	}
}

// CutOneWay cuts the path from one member to another. Nothing connects the two any more. Data of open streams
// still arrives in the other direction.
func (n *Network) CutOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := path{from, to}
	if n.cuts[p] == nil {
		n.cuts[p] = make(chan struct{})
	}
}

// Holds reports whether a cut delays data on the way from one member to another.
func (n *Network) Holds(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.held[path{from, to}] > 0
}

// HealOneWay repairs the path from one member to another.
func (n *Network) HealOneWay(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heal(path{from, to})
}

// Heal repairs all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.cuts {
		n.heal(p)
	}
}

func (n *Network) heal(p path) {
	if healed := n.cuts[p]; healed != nil {
		close(healed)
		delete(n.cuts, p)
	}
}

// Close breaks every connection and waits for the network's goroutines. Gossip that outlives its server may
// connect later, and fails.
func (n *Network) Close() {
	n.mu.Lock()
	n.ended = true
	for l := range n.links {
		l.close()
	}
	n.mu.Unlock()
	n.pumps.Wait()
}

// From is the network as one member sees it.
func (n *Network) From(name string) View { return View{n, name} }

// View is the network as one member sees it.
type View struct {
	net  *Network
	name string
}

// Gossip is the transport of the member's gossip.
func (v View) Gossip(t *memberlist.NetTransport) memberlist.NodeAwareTransport {
	return &gossip{t, v}
}

// gossip sends the packets of memberlist over the network.
type gossip struct {
	*memberlist.NetTransport
	from View
}

// WriteTo sends a datagram.
func (g *gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	return g.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a datagram, or drops it if the path is cut.
func (g *gossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	net := g.from.net
	if net.healed(path{g.from.name, net.memberAt(a.Addr)}) != nil {
		return time.Now(), nil
	}
	return g.NetTransport.WriteToAddress(b, a)
}

// DialTimeout opens a connection.
func (g *gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return g.from.Dial(addr, timeout)
}

// DialAddressTimeout opens a connection.
func (g *gossip) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.from.Dial(a.Addr, timeout)
}

// Dial connects, or waits for the timeout if the path is cut in a direction.
func (v View) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	there := path{v.name, v.net.memberAt(addr)}
	late := make(chan struct{})
	timer := time.AfterFunc(timeout, func() { close(late) })
	defer timer.Stop()
	if !v.net.awaitPath(there, late) || !v.net.awaitPath(there.back(), late) {
		return nil, fmt.Errorf("dialling %s: %w", addr, os.ErrDeadlineExceeded)
	}
	far, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	near, inner := net.Pipe()
	l := &link{
		net:  v.net,
		path: there,
		ends: [2]net.Conn{inner, far},
		gone: make(chan struct{}),
	}
	if !v.net.startLink(l) {
		l.close()
		return nil, fmt.Errorf("dialling %s: %w", addr, net.ErrClosed)
	}
	return pipe{near, far}, nil
}

func (n *Network) memberAt(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.names[host]
}

// healed returns a channel that closes when the path is repaired, nil for a path that works.
func (n *Network) healed(p path) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if healed, ok := n.cuts[p]; ok {
		return healed
	}
	return nil
}

// awaitPath waits until the path works, and returns false if givenUp closes first.
func (n *Network) awaitPath(p path, givenUp <-chan struct{}) bool {
	for {
		healed := n.healed(p)
		if healed == nil {
			return true
		}
		select {
		case <-healed:
		case <-givenUp:
			return false
		}
	}
}

// link is one connection with the data in transit.
type link struct {
	net  *Network
	path path // from the end that has connected
	ends [2]net.Conn
	once sync.Once
	gone chan struct{}
}

// startLink carries the data of a connection. It returns false if the network is closed.
func (n *Network) startLink(l *link) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return false
	}
	n.links[l] = true
	var pumps sync.WaitGroup
	for i, p := range []path{l.path, l.path.back()} {
		sent := make(chan []byte, 256) // a kernel holds unacknowledged data in the same way
		pumps.Go(func() {
			l.receive(l.ends[i], sent)
		})
		pumps.Go(func() {
			l.deliver(p, l.ends[1-i], sent)
		})
	}
	n.pumps.Go(func() {
		pumps.Wait()
		n.mu.Lock()
		delete(n.links, l)
		n.mu.Unlock()
	})
	return true
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.ends[0].Close()
		_ = l.ends[1].Close()
	})
}

// receive reads the data that one end sends until that end closes.
func (l *link) receive(from net.Conn, sent chan<- []byte) {
	defer close(sent)
	buf := make([]byte, 32<<10)
	for {
		count, err := from.Read(buf)
		if count > 0 {
			select {
			case sent <- bytes.Clone(buf[:count]):
			case <-l.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver writes the data to the other end while the path works. A cut also holds back the close of the first
// end.
func (l *link) deliver(p path, to net.Conn, sent <-chan []byte) {
	defer l.close()
	for {
		b, open := <-sent
		arrives := l.net.carry(p, l.gone)
		if !arrives || !open {
			return
		}
		if _, err := to.Write(b); err != nil {
			return
		}
	}
}

// carry waits until data arrives. It returns false if givenUp closes first.
func (n *Network) carry(p path, givenUp <-chan struct{}) bool {
	if n.healed(p) == nil {
		return true
	}
	n.hold(p, 1)
	defer n.hold(p, -1)
	return n.awaitPath(p, givenUp)
}

func (n *Network) hold(p path, more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held[p] += more
}

// pipe is the near end of a link with the addresses of the far end.
type pipe struct {
	net.Conn
	far net.Conn
}

// RemoteAddr returns the address of the peer.
func (p pipe) RemoteAddr() net.Addr { return p.far.RemoteAddr() }

// LocalAddr returns the local address.
func (p pipe) LocalAddr() net.Addr { return p.far.LocalAddr() }
