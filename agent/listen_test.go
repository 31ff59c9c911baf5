package agent

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/client/config"
)

// TestListenHTTP_WaitsForAnAddressInUse frees the address at the third attempt, as the child of a killed
// agent does when it runs exec.
func TestListenHTTP_WaitsForAnAddressInUse(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	attempts := 0
	network := net.ListenConfig{Control: func(_, _ string, _ syscall.RawConn) error {
		attempts++
		if attempts == 3 {
			return held.Close()
		}
		return nil
	}}
	network.SetMultipathTCP(false)
	ln, err := listenHTTP(network, held.Addr().String(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if attempts != 3 {
		t.Errorf("got %d attempts, want 3", attempts)
	}
}

// The kernel may have chosen the ports of the agent, which are not for allocations and artifacts either.
func TestNodeSettings_HaveTheBoundPorts(t *testing.T) {
	a, _, _ := runServer(t, "s1", func(*Config) {})
	got := a.nodeSettings(&config.Config{OwnPorts: []int{9}}).OwnPorts
	want := []int{9}
	for _, address := range []string{a.HTTPAddr(), a.server.RPCAddr(), serfAddr(a.server)} {
		want = append(want, int(netip.MustParseAddrPort(address).Port()))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListenHTTP_ReturnsOtherErrorsAtOnce(t *testing.T) {
	rejected := errors.New("rejected")
	attempts := 0
	network := net.ListenConfig{Control: func(_, _ string, _ syscall.RawConn) error {
		attempts++
		return rejected
	}}
	network.SetMultipathTCP(false)
	_, err := listenHTTP(network, "127.0.0.1:0", time.Minute)
	if !errors.Is(err, rejected) || attempts != 1 {
		t.Errorf("got %v after %d attempts, want the error after one", err, attempts)
	}
}

func TestListenHTTP_EndsItsWaitForAnAddressInUse(t *testing.T) {
	held, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, err = listenHTTP(net.ListenConfig{}, held.Addr().String(), time.Millisecond)
	if !errors.Is(err, syscall.EADDRINUSE) ||
		!strings.Contains(err.Error(), held.Addr().String()) {
		t.Errorf("got %v, want the address in use", err)
	}
}
