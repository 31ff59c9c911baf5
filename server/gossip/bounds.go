package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
)

// The bounds of what others may send before this server knows that they have the key. The library itself has
// no bound on connections, and takes 20 MiB from each before it decrypts.
const (
	// maxStreams is the most connections of strangers at a time. A server opens one for some milliseconds, each
	// half minute.
	maxStreams = 48
	// maxHostStreams is the most of them from one address. Several servers may share an address.
	maxHostStreams = 16
	// maxKnown is the most addresses of members. A cluster has fewer.
	maxKnown = 32
	// maxStreamBytes is the most that a connection may send. A server sends less than 1 KiB for each member.
	maxStreamBytes = 1 << 20
)

// errStreamTooLong ends the read of a connection that sends more than its bound.
var errStreamTooLong = errors.New("the connection sends more than 1 MiB: it is not from a server")

// boundedTransport bounds the connections that a transport accepts: it closes each one above the bounds at
// once, before the library reads from it. The bound of all is for strangers. An address to which this server
// has connected belongs to a member, or was configured, and has the places of an address beside that: nobody
// without the key can make the library connect.
type boundedTransport struct {
	memberlist.NodeAwareTransport
	logger  hclog.Logger
	sampler *faultSampler
	streams chan net.Conn
	closing chan struct{} // closed when the end of the transport begins: nobody may read streams any more
	done    chan struct{} // closed when the transport accepts nothing any more
	ended   sync.WaitGroup
	once    sync.Once

	mu        sync.Mutex
	strangers int
	from      map[string]int  // connections by the address of their host
	known     map[string]bool // the addresses of members
}

// newBoundedTransport bounds a transport until its Shutdown.
func newBoundedTransport(inner memberlist.NodeAwareTransport, logger hclog.Logger) *boundedTransport {
	b := &boundedTransport{
		NodeAwareTransport: inner,
		logger:             logger,
		sampler:            &faultSampler{now: time.Now},
		streams:            make(chan net.Conn),
		closing:            make(chan struct{}),
		done:               make(chan struct{}),
		from:               map[string]int{},
		known:              map[string]bool{},
	}
	b.ended.Go(b.passStreams)
	return b
}

// DialAddressTimeout connects to a member, or to a server that is configured.
func (b *boundedTransport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := b.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err == nil {
		b.note(hostOf(conn))
	}
	return conn, err
}

// note records the address of a member. If there are too many, it begins anew: the library connects to each
// member again within some half minutes.
func (b *boundedTransport) note(host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= maxKnown && !b.known[host] {
		clear(b.known)
	}
	b.known[host] = true
}

// StreamCh returns the channel of the accepted connections.
func (b *boundedTransport) StreamCh() <-chan net.Conn { return b.streams }

// Shutdown ends the transport. The one below waits until each connection that it has accepted has a reader.
func (b *boundedTransport) Shutdown() (err error) {
	b.once.Do(func() {
		close(b.closing)
		err = b.NodeAwareTransport.Shutdown()
		close(b.done)
	})
	b.ended.Wait()
	return err
}

// passStreams hands the connections within the bounds to the library until the end.
func (b *boundedTransport) passStreams() {
	for {
		select {
		case conn := <-b.NodeAwareTransport.StreamCh():
			b.pass(conn)
		case <-b.done:
			return
		}
	}
}

func (b *boundedTransport) pass(conn net.Conn) {
	host := hostOf(conn)
	leave := b.enter(host)
	if leave == nil {
		_ = conn.Close()
		b.tellRejection(host)
		return
	}
	bounded := &boundedStream{Conn: conn, left: maxStreamBytes, leave: leave}
	select {
	case b.streams <- bounded:
	case <-b.closing:
		_ = bounded.Close()
	}
}

func (b *boundedTransport) tellRejection(host string) {
	omitted, ok := b.sampler.admit()
	if !ok {
		return
	}
	b.logger.Warn("rejected a connection to the gossip: too many are open",
		"address", host,
		"most_of_an_address", maxHostStreams,
		"most", maxStreams,
		"lines_left_out", omitted)
}

// enter counts a connection, and returns the function that gives its place back. Nil: there is none.
func (b *boundedTransport) enter(host string) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	stranger := !b.known[host]
	if stranger && b.strangers >= maxStreams || b.from[host] >= maxHostStreams {
		return nil
	}
	if stranger {
		b.strangers++
	}
	b.from[host]++
	return func() { b.leave(host, stranger) }
}

func (b *boundedTransport) leave(host string, stranger bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if stranger {
		b.strangers--
	}
	b.from[host]--
	if b.from[host] == 0 {
		delete(b.from, host)
	}
}

// hostOf returns the address of the host at the other end of a connection. With IPv6 it is the network of the
// host: everybody there has all of its addresses.
func hostOf(conn net.Conn) string {
	text := conn.RemoteAddr().String()
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return text
	}
	const hostNetwork = 64 // bits
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		return netip.PrefixFrom(addr, hostNetwork).Masked().String()
	}
	return addr.String()
}

// boundedStream is a connection that may send left bytes more. The library closes each connection that it
// takes; leave runs at the first Close.
type boundedStream struct {
	net.Conn
	left  int
	leave func()
	once  sync.Once
}

// Read reads up to the bound of the connection.
func (s *boundedStream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, errStreamTooLong
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Close closes the connection and gives its place to another one.
func (s *boundedStream) Close() error {
	defer s.once.Do(s.leave)
	return s.Conn.Close()
}

// The library writes a line for each packet and connection that it rejects. A faultSampler admits faultBurst
// of its errors and warnings at once, and then one each faultInterval.
const (
	faultBurst    = 20
	faultInterval = 10 * time.Second
)

// faultSampler decides which errors and warnings are written. Its zero value with a clock is ready.
type faultSampler struct {
	now func() time.Time

	mu      sync.Mutex
	begun   time.Time // of the current burst
	written int       // in it
	next    time.Time // when one more may be written after it
	omitted int
}

// admit reports whether a line may be written, and how many were left out since the last one.
func (s *faultSampler) admit() (omitted int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if now.Sub(s.begun) > faultBurst*faultInterval {
		s.begun = now
		s.written = 0
	}
	if s.written >= faultBurst && now.Before(s.next) {
		s.omitted++
		return 0, false
	}
	s.written++
	s.next = now.Add(faultInterval)
	omitted = s.omitted
	s.omitted = 0
	return omitted, true
}

// sampledWriter passes on the lines of the library's log: all that tell of members, and those errors and
// warnings that its sampler admits.
type sampledWriter struct {
	out     io.Writer
	sampler *faultSampler
}

// faultPrefixes begin the errors and warnings of the library.
var faultPrefixes = [][]byte{[]byte("[ERR"), []byte("[WARN"), []byte("Err")}

// Write passes on a line, or counts it.
func (w sampledWriter) Write(line []byte) (int, error) {
	isFault := slices.ContainsFunc(faultPrefixes, func(p []byte) bool { return bytes.HasPrefix(line, p) })
	if !isFault {
		return w.out.Write(line)
	}
	omitted, ok := w.sampler.admit()
	if !ok {
		return len(line), nil
	}
	told := line
	if omitted > 0 {
		told = fmt.Appendf(nil, "%s (%d such lines were left out)\n", bytes.TrimRight(line, "\n"), omitted)
	}
	_, err := w.out.Write(told)
	return len(line), err
}
