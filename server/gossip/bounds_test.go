package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"
)

// startOnSockets starts a server with keys on sockets of its own, as a server does. It returns its address.
func startOnSockets(t *testing.T, name string, log io.Writer) (*serf.Serf, string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "["+strconv.Quote(keys[0])+"]")
	sc, _, err := apply(Encryption{Dir: dir, VerifyIncoming: true, VerifyOutgoing: true})
	if err != nil {
		t.Fatal(err)
	}
	logger := hclog.New(&hclog.LoggerOptions{Output: log})
	sc.NodeName = name
	sc.Logger = logger.StandardLogger(&hclog.StandardLoggerOptions{InferLevels: true})
	sc.MemberlistConfig.Logger = sc.Logger
	sc.MemberlistConfig.TCPTimeout = time.Hour // the library closes no connection by itself
	transport, err := Sockets{Bind: "127.0.0.1:0"}.Open(sc.MemberlistConfig, logger)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Create(sc, logger)
	if err != nil {
		t.Fatal(errors.Join(err, transport.Shutdown()))
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s, net.JoinHostPort("127.0.0.1", strconv.Itoa(sc.MemberlistConfig.BindPort))
}

// await calls ready until it returns nil.
func await(t *testing.T, condition string, ready func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	err := ready()
	for ; err != nil && time.Now().Before(deadline); err = ready() {
		runtime.Gosched()
	}
	if err != nil {
		t.Fatalf("%s: %v", condition, err)
	}
}

func mustDial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// awaitClosed waits until the other side has closed a connection.
func awaitClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the server keeps a connection above its bound")
	}
}

// TestBounds_OfAStranger: the connections of an address above the bound are closed at once, and servers join
// after the others have ended.
func TestBounds_OfAStranger(t *testing.T) {
	s, addr := startOnSockets(t, "first", io.Discard)
	var idle []net.Conn
	for range maxHostStreams {
		idle = append(idle, mustDial(t, addr))
	}
	for range 3 {
		awaitClosed(t, mustDial(t, addr))
	}
	for _, conn := range idle {
		_ = conn.Close()
	}
	second, _ := startOnSockets(t, "second", io.Discard)
	await(t, "a server joins after the end of the idle connections", func() error {
		_, err := second.Join([]string{addr}, true)
		return err
	})
	await(t, "the first server knows both", func() error {
		if s.NumNodes() != 2 {
			return fmt.Errorf("it knows %d members", s.NumNodes())
		}
		return nil
	})
}

// TestBounds_EndAConnectionThatSendsTooMuch announces 19 MiB, as a stranger may, and sends them.
func TestBounds_EndAConnectionThatSendsTooMuch(t *testing.T) {
	_, addr := startOnSockets(t, "first", io.Discard)
	conn := mustDial(t, addr)
	const encrypted = 10 // the type of an encrypted message in the library
	head := append([]byte{encrypted}, binary.BigEndian.AppendUint32(nil, 19<<20)...)
	written, err := conn.Write(head)
	for err == nil && written < 19<<20 {
		var n int
		n, err = conn.Write(make([]byte, 64<<10))
		written += n
	}
	if err == nil {
		t.Error("the server has taken 19 MiB from a stranger")
	}
}

func TestBoundedStream_ReadsItsBoundAndLeavesOnce(t *testing.T) {
	here, there := net.Pipe()
	go func() {
		_, _ = there.Write(bytes.Repeat([]byte("x"), 20))
		_ = there.Close()
	}()
	left := 0
	s := &boundedStream{Conn: here, left: 10, leave: func() { left++ }}
	got, err := io.ReadAll(s)
	if len(got) != 10 || !errors.Is(err, errStreamTooLong) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	_ = s.Close()
	_ = s.Close()
	if left != 1 {
		t.Errorf("the place was given back %d times", left)
	}
}

func TestBoundedTransport_CountsAllAddresses(t *testing.T) {
	b := &boundedTransport{from: map[string]int{}}
	var leave []func()
	for host := range 2 * maxStreams {
		if l := b.enter(strconv.Itoa(host)); l != nil {
			leave = append(leave, l)
		}
	}
	if len(leave) != maxStreams {
		t.Fatalf("%d addresses have a connection each, want %d", len(leave), maxStreams)
	}
	leave[0]()
	if len(b.from) != maxStreams-1 || b.enter("another") == nil {
		t.Errorf("after one has left: %d addresses", len(b.from))
	}
}

// dialled is a transport that connects to any address.
type dialled struct{ memberlist.NodeAwareTransport }

func (dialled) DialAddressTimeout(a memberlist.Address, _ time.Duration) (net.Conn, error) {
	return connFrom{addr: a.Addr}, nil
}

// Strangers have taken all of their places. A member that was known before returns.
func TestBoundedTransport_KeepsPlacesForMembers(t *testing.T) {
	b := &boundedTransport{NodeAwareTransport: dialled{}, from: map[string]int{}, known: map[string]bool{}}
	_, err := b.DialAddressTimeout(memberlist.Address{Addr: "10.0.0.7:4748"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for host := range maxStreams {
		b.enter(strconv.Itoa(host))
	}
	var leave []func()
	for l := b.enter("10.0.0.7"); l != nil; l = b.enter("10.0.0.7") {
		leave = append(leave, l)
	}
	if len(leave) != maxHostStreams {
		t.Errorf("the member has %d places, want %d", len(leave), maxHostStreams)
	}
	for _, l := range leave {
		l()
	}
	if b.enter("10.0.0.8") != nil || b.strangers != maxStreams {
		t.Errorf("a stranger has a place of a member: %d strangers", b.strangers)
	}

	// It takes a place as a stranger, and is known before it gives it back.
	b = &boundedTransport{from: map[string]int{}, known: map[string]bool{}}
	last := b.enter("10.0.0.9")
	b.note("10.0.0.9")
	last()
	if b.strangers != 0 || len(b.from) != 0 {
		t.Errorf("%d strangers are left, and %v", b.strangers, b.from)
	}

	for host := range 10 * maxKnown {
		b.note(strconv.Itoa(host))
	}
	if len(b.known) > maxKnown {
		t.Errorf("%d addresses are known", len(b.known))
	}
}

// connFrom is a connection from an address.
type connFrom struct {
	net.Conn
	addr string
}

func (c connFrom) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr))
}

func TestHostOf_CountsANetworkOfIPv6AsOne(t *testing.T) {
	for addr, want := range map[string]string{
		"10.0.0.7:99":               "10.0.0.7",
		"[::ffff:10.0.0.7]:99":      "10.0.0.7",
		"[2001:db8:1:2::7]:99":      "2001:db8:1:2::/64",
		"[2001:db8:1:2:3:4:5:6]:99": "2001:db8:1:2::/64",
		"[fe80::7%eth0]:99":         "fe80::/64",
	} {
		if got := hostOf(connFrom{addr: addr}); got != want {
			t.Errorf("%s is of %s, want %s", addr, got, want)
		}
	}
}

// TestBoundedTransport_EndsWithoutAReader: a gossip that never started reads no connection.
func TestBoundedTransport_EndsWithoutAReader(t *testing.T) {
	mc := memberlist.DefaultLocalConfig()
	mc.Logger = hclog.NewNullLogger().StandardLogger(nil)
	transport, err := Sockets{Bind: "127.0.0.1:0"}.Open(mc, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustDial(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(mc.BindPort)))
	}
	if err := transport.Shutdown(); err != nil {
		t.Error(err)
	}
}

func TestSampledWriter_KeepsMembersAndSomeFaults(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	w := sampledWriter{&out, &faultSampler{now: func() time.Time { return now }}}
	say := func(line string) {
		if n, err := w.Write([]byte(line + "\n")); n != len(line)+1 || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	for range 1000 {
		say("[ERR] memberlist: Decrypt packet failed")
		say("[WARN] memberlist: Got invalid checksum")
	}
	say("[INFO] memberlist: Suspect s2 has failed")
	if got := strings.Count(out.String(), "\n"); got != faultBurst+1 {
		t.Errorf("%d lines, want %d faults and one of a member", got, faultBurst)
	}
	out.Reset()
	now = now.Add(faultInterval)
	say("[ERR] memberlist: Decrypt packet failed")
	say("[ERR] memberlist: Decrypt packet failed")
	want := "[ERR] memberlist: Decrypt packet failed (1980 such lines were left out)\n"
	if out.String() != want {
		t.Errorf("later: %q, want %q", out.String(), want)
	}
	now = now.Add(2 * faultBurst * faultInterval)
	out.Reset()
	for range 30 {
		say("[ERR] memberlist: Decrypt packet failed")
	}
	if got := strings.Count(out.String(), "\n"); got != faultBurst {
		t.Errorf("after a quiet time %d lines, want %d", got, faultBurst)
	}
}
