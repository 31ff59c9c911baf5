package nettest

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports of FreePorts are below those that the kernel gives to outgoing connections, so that a process
// that starts again finds its own free.
const (
	firstPort = 16000
	lastPort  = 32000
)

var lastTaken atomic.Int32

// FreePorts returns n ports of loopback without a listener, in TCP and UDP, that no other test of the process
// has received.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries > lastPort-firstPort {
			t.Fatal("no free ports")
		}
		port := firstPort + (os.Getpid()*97+int(lastTaken.Add(1)))%(lastPort-firstPort)
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = l.Close()
		u, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		_ = u.Close()
		ports = append(ports, port)
	}
	return ports
}
