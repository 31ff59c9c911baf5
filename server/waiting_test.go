package server

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/test/kit"
)

// A server that is in no cluster names what it waits for, and where others try to reach it.
func TestServer_NamesItsAddressesWhileItWaits(t *testing.T) {
	noLeaks(t)
	c := testConfig(t)
	c.BootstrapExpect = 3
	c.RetryJoin = []string{"127.0.0.1:1"}
	c.RPCAdvertise = "127.0.0.2:4747"
	log := &kit.Output{}
	s, err := New(c, hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log}))
	if err != nil {
		t.Fatal(err)
	}
	r := startAny(t, s)
	r.until("it says that it waits", func() bool { return strings.Contains(log.String(), "waiting for a cluster") })
	_, line, _ := strings.Cut(log.String(), "waiting for a cluster")
	line, _, _ = strings.Cut(line, "\n")
	for _, want := range []string{"rpc=127.0.0.2:4747", "gossip=127.0.0.1:", "bootstrap_expect=3"} {
		if !strings.Contains(line, want) {
			t.Errorf("the line %q lacks %q", line, want)
		}
	}
}

// Copies of a machine have one host name, and the gossip takes one server of a name.
func TestServer_NamesAnotherOneWithItsName(t *testing.T) {
	noLeaks(t)
	first := run(t, testConfig(t))
	c := testConfig(t)
	c.BootstrapExpect = 3
	own := first.Member()
	at := net.JoinHostPort(own.Addr, strconv.Itoa(int(own.Port)))
	c.RetryJoin = []string{at}
	log := &kit.Output{}
	s, err := New(c, hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: log}))
	if err != nil {
		t.Fatal(err)
	}
	r := startAny(t, s)
	r.until("it names the other server", func() bool {
		return strings.Contains(log.String(), "the server at "+at+" has the name of this one") &&
			strings.Contains(log.String(), "with -name (name)")
	})
	_, err = s.Join(t.Context(), []string{at})
	if err == nil || !strings.Contains(err.Error(), "has the name of this one") {
		t.Errorf("berth server join: got %v", err)
	}
}
