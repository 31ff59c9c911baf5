package join

import (
	"net"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

func TestPort_OneHostLeavesPlacesToOthers(t *testing.T) {
	p := NewPort(Settings{}, nil, hclog.NewNullLogger())
	defer p.Close()
	now := time.Unix(1000, 0)
	for range perHost {
		if !p.admit("a", now) {
			t.Fatal("a place is denied to the first host")
		}
	}
	if p.admit("a", now) {
		t.Errorf("one host has more than %d places", perHost)
	}
	if !p.admit("b", now) {
		t.Error("the places of one host are denied to another one")
	}
	p.leave("a")
	if !p.admit("a", now) {
		t.Error("a place that was given back is denied")
	}
}

func TestPort_BoundsTheConnectionsOfAHost(t *testing.T) {
	p := NewPort(Settings{}, nil, hclog.NewNullLogger())
	defer p.Close()
	now := time.Unix(1000, 0)
	for range perMinute {
		if !p.admit("a", now) {
			t.Fatal("a connection within the bound is denied")
		}
		p.leave("a")
	}
	if p.admit("a", now) {
		t.Errorf("more than %d connections in a minute", perMinute)
	}
	if !p.admit("a", now.Add(time.Minute)) {
		t.Error("a connection of the next minute is denied")
	}
	if len(p.open) != 1 || len(p.conns) != 1 {
		t.Errorf("%d hosts have %d places; expected one of each", len(p.open), len(p.conns))
	}
}

func TestHostOf_IsTheNetworkOfAnIPv6Address(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:80":          "10.0.0.1",
		"[::ffff:10.0.0.1]:80": "10.0.0.1",
		"[2001:db8::1]:80":     "2001:db8::/64",
		"[fe80::1%lo]:80":      "fe80::/64",
	} {
		addr, err := net.ResolveTCPAddr("tcp", remote)
		if err != nil {
			t.Fatal(err)
		}
		if got := hostOf(addr); got != want {
			t.Errorf("%s: %s; expected %s", remote, got, want)
		}
	}
}
