package kit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports of FreePorts are below the ports that the kernel gives to outgoing connections, so that a process
// that starts again finds its own free.
const (
	firstPort = 15000
	lastPort  = 32000
)

var lastTaken atomic.Int32

// FreePorts returns n consecutive ports of loopback without a listener, in TCP and UDP. No other test of the
// machine receives them before the end of the test, also while their server is down.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	count := lastPort - firstPort - n
	for range count {
		taken := int(lastTaken.Add(int32(n))) - n
		if ports := reserveAll(t, firstPort+(os.Getpid()*97+taken)%count, n); ports != nil {
			return ports
		}
	}
	t.Fatal("no free ports")
	return nil
}

// reserveAll reserves n ports until the end of the test, or none and returns nil.
func reserveAll(t testing.TB, first, n int) (ports []int) {
	var reserved []net.Listener
	release := func() {
		for _, l := range reserved {
			_ = l.Close()
		}
	}

	for port := first; port < first+n; port++ {
		// Like a port, the name of the socket belongs to the network namespace. The kernel frees it at the
		// end of the process.
		l, err := net.Listen("unix", fmt.Sprint("@berth-test-port-", port))
		if err == nil {
			reserved = append(reserved, l)
			err = checkFree(port)
		}
		if err != nil {
			release()
			return nil
		}

		ports = append(ports, port)
	}

	t.Cleanup(release)
	return ports
}

// checkFree returns an error if a port of loopback has a listener.
func checkFree(port int) error {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	u, err := net.ListenPacket("udp", addr)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	return errors.Join(l.Close(), u.Close())
}
