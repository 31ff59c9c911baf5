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

// Network connects the members. Each has its own address, and the path between any two can be cut. A cut
// loses datagrams and delays streams without an error, like a dead switch. After the repair the streams
// continue.
type Network struct {
	mu    sync.Mutex
	names map[string]string // by IP address
	cuts  map[path]chan struct{}
	links map[*link]bool
	ended bool // nothing connects any more
	pumps sync.WaitGroup
}

// path names the two ends of a connection, the lesser name first.
type path struct{ a, b string }

func pathBetween(a, b string) path {
	if a > b {
		a, b = b, a
	}
	return path{a, b}
}

var addresses atomic.Uint32

// NewNetwork returns a network without cuts.
func NewNetwork() *Network {
	return &Network{
		names: map[string]string{},
		cuts:  map[path]chan struct{}{},
		links: map[*link]bool{},
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
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range others {
		if w := pathBetween(name, other); n.cuts[w] == nil {
			n.cuts[w] = make(chan struct{})
		}
	}
}

// Heal repairs all cuts.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w, healed := range n.cuts {
		close(healed)
		delete(n.cuts, w)
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
	if net.healed(pathBetween(g.from.name, net.memberAt(a.Addr))) != nil {
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

// Dial connects, or waits for the timeout if the path is cut.
func (v View) Dial(addr string, timeout time.Duration) (net.Conn, error) {
	w := pathBetween(v.name, v.net.memberAt(addr))
	late := make(chan struct{})
	timer := time.AfterFunc(timeout, func() { close(late) })
	defer timer.Stop()
	if !v.net.awaitPath(w, late) {
		return nil, fmt.Errorf("dialling %s: %w", addr, os.ErrDeadlineExceeded)
	}
	far, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	near, inner := net.Pipe()
	l := &link{
		net:  v.net,
		path: w,
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
func (n *Network) healed(w path) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if healed, ok := n.cuts[w]; ok {
		return healed
	}
	return nil
}

// awaitPath waits until the path works, and returns false if givenUp closes first.
func (n *Network) awaitPath(w path, givenUp <-chan struct{}) bool {
	for {
		healed := n.healed(w)
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
	path path
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
	for _, end := range [][2]net.Conn{
		{l.ends[0], l.ends[1]},
		{l.ends[1], l.ends[0]},
	} {
		sent := make(chan []byte, 256) // a kernel holds unacknowledged data in the same way
		pumps.Go(func() {
			l.receive(end[0], sent)
		})
		pumps.Go(func() {
			l.deliver(end[1], sent)
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
func (l *link) deliver(to net.Conn, sent <-chan []byte) {
	defer l.close()
	for {
		b, open := <-sent
		if !l.net.awaitPath(l.path, l.gone) || !open {
			return
		}
		if _, err := to.Write(b); err != nil {
			return
		}
	}
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
