package download

import (
	"io"
	"net"
	"net/netip"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

func TestGuard_ChecksAddresses(t *testing.T) {
	networks, err := ParseNetworks([]string{"127.0.0.2/32", "fe80::1/128"})
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(Rules{Networks: networks, AgentPorts: []int{4646}})
	for address, allowed := range map[string]bool{
		"127.0.0.1":                     false,
		"127.255.0.9":                   false,
		"127.0.0.2":                     true,
		"::ffff:127.0.0.1":              false,
		"::ffff:127.0.0.2":              true,
		"::1":                           false,
		"::":                            false,
		"0.0.0.0":                       false,
		"0.1.2.3":                       false,
		"169.254.169.254":               false,
		"::ffff:169.254.169.254":        false,
		"64:ff9b::169.254.169.254":      false,
		"64:ff9b::93.184.215.14":        true,
		"fe80::2":                       false,
		"fe80::2%eth0":                  false,
		"fe80::1%eth0":                  true,
		"fd00:ec2::254":                 false,
		"fd00:ec2::23":                  false,
		"fd20:ce::254":                  false,
		"100.100.100.200":               false,
		"168.63.129.16":                 false,
		"224.0.0.1":                     false,
		"255.255.255.255":               false,
		"ff02::1":                       false,
		"10.0.0.1":                      true,
		"172.16.0.1":                    true,
		"192.168.1.1":                   true,
		"fd00::1":                       true,
		"93.184.215.14":                 true,
		"2606:2800:21f:cb07::6820:80da": true,
	} {
		err := g.check(netip.AddrPortFrom(netip.MustParseAddr(address), 4646))
		if (err == nil) != allowed {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// A slow server is no silent one.
func TestHeardConn_EndsWithTheSilenceOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		conn := &heardConn{here, newGuard(Rules{Silence: time.Minute})}
		go func() {
			for range 4 {
				time.Sleep(50 * time.Second)
				_, _ = there.Write([]byte("x"))
			}
		}()
		buf := make([]byte, 4)
		_, err := io.ReadFull(conn, buf)
		if err != nil {
			t.Errorf("a slow server: %v", err)
		}
		begin := time.Now()
		_, err = conn.Read(buf)
		if err == nil || time.Since(begin) != time.Minute || conn.guard.rejection() == nil {
			t.Errorf("a silent server: got %v after %s", err, time.Since(begin))
		}
	})
}

// A server of artifacts may be beside the agent, at another port.
func TestGuard_RejectsTheAgentAtEachAddressOfTheNode(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		addr := netip.MustParsePrefix(a.String()).Addr()
		special := addr.IsLoopback() || addr.IsLinkLocalUnicast()
		rules := Rules{AgentPorts: []int{4646, 4647}}
		for port, rejected := range map[uint16]bool{80: special, 4646: true, 4647: true} {
			to := netip.AddrPortFrom(addr, port)
			err := newGuard(rules).check(to)
			if (err != nil) != rejected {
				t.Errorf("%s: got %v", to, err)
			}
			_, err = newGuard(rules).proxy(&url.URL{Scheme: "http", Host: to.String()})
			if (err != nil) != rejected {
				t.Errorf("%s through a proxy: got %v", to, err)
			}
			allowing := rules
			allowing.Networks = []netip.Prefix{netip.PrefixFrom(addr, addr.BitLen())}
			err = newGuard(allowing).check(to)
			if err != nil {
				t.Errorf("%s is allowed: got %v", to, err)
			}
		}
	}
}
