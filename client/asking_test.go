package client

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/membership"
	"berth/rpc"
	"berth/structs"
)

// beats returns the requests for a lease since a time, as offsets from it.
func (r *fixture) beats(method string, since time.Time) map[string][]time.Duration {
	all := map[string][]time.Duration{}
	for _, call := range r.servers.called(method) {
		if !call.at.Before(since) {
			all[call.addr] = append(all[call.addr], call.at.Sub(since))
		}
	}
	return all
}

// passLeased lets a time pass, and reports at what time of it the lease had ended, if it had.
func (r *fixture) passLeased(d time.Duration) (ended bool) {
	const look = 50 * time.Millisecond
	for range d / look {
		r.pass(look)
		ended = ended || r.client.registration.lease.Load().Ended(r.client.clock())
	}
	return ended
}

// The first server may still answer when the second one is asked.
func TestAskBeside_AsksTheNextServerBesideTheFirst(t *testing.T) {
	for _, method := range []string{"Node.UpdateStatus", "Node.Register"} {
		for _, ttl := range []time.Duration{time.Second, 10 * time.Second} {
			t.Run(method+" "+ttl.String(), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T) {
					r := newFixture(t)
					r.servers.ttl = ttl
					r.servers.servers = []string{"s1:1", "s2:1", "s3:1"}
					r.start(false)
					defer r.stop()
					r.pass(time.Millisecond)
					r.servers.do(func() {
						r.servers.hang = func(addr, called string) bool { return called == method && addr != "s3:1" }
						if method == "Node.Register" {
							clear(r.servers.nodes)
							notify(r.client.registration.due)
						}
					})
					cut := time.Now()
					if r.passLeased(2 * ttl) {
						t.Error("the lease ended although the third server grants it")
					}
					got := r.beats(method, cut)
					first := got["s1:1"][0]
					for addr, want := range map[string]time.Duration{"s2:1": ttl / 6, "s3:1": ttl / 3} {
						if len(got[addr]) == 0 || (got[addr][0]-first).Round(time.Millisecond) != want.Round(time.Millisecond) {
							t.Errorf("%s was asked at %v; want %s after %s", addr, got[addr], want, first)
						}
					}
				})
			})
		}
	}
}

// A grant counts from its own request, whichever servers were asked before.
func TestAskBeside_CountsFromTheRequestThatWasGranted(t *testing.T) {
	for _, c := range []struct {
		name  string
		hangs string
		age   time.Duration
	}{
		{"of the first", "s2:1", 3 * time.Second},
		{"of the second", "s1:1", 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.start(false)
				defer r.stop()
				begin := time.Now()
				r.servers.do(func() {
					r.servers.holdsBeats = c.age
					r.servers.hang = func(addr, method string) bool {
						return method == "Node.UpdateStatus" && addr == c.hangs
					}
				})
				for _, age := r.client.Lease(); age < c.age || age > 5*time.Second; _, age = r.client.Lease() {
					r.pass(10 * time.Millisecond)
					if time.Since(begin) > 10*time.Second {
						t.Fatal("the lease was not renewed")
					}
				}
				if _, age := r.client.Lease(); age != c.age {
					t.Errorf("the lease has the age %s, want %s", age, c.age)
				}
			})
		})
	}
}

// frozenFor is longer than a lease.
const frozenFor = 12 * time.Second

// freeze lets the first server be silent, as a frozen leader is. The others elect one meanwhile: before that
// they have none, and then it is named first.
func (r *fixture) freeze(elects time.Duration) {
	begun := time.Now()
	r.servers.do(func() {
		r.servers.hang = func(addr, _ string) bool {
			return addr == "s1:1" && time.Since(begun) < frozenFor
		}
		r.servers.fail = func(addr, _ string) error {
			if addr != "s1:1" && time.Since(begun) < elects {
				return structs.NotServedf("no leader")
			}
			return nil
		}
		r.servers.servers = []string{"s2:1", "s3:1", "s1:1"}
	})
}

// The leader may be lost at any time between two heartbeats.
func TestLease_OutlivesTheLossOfOneServer(t *testing.T) {
	for at := time.Duration(0); at < 5*time.Second; at += 250 * time.Millisecond {
		inVirtualTime(t, func(t *testing.T) {
			r := newFixture(t)
			r.servers.servers = []string{"s1:1", "s2:1", "s3:1"}
			r.start(false)
			defer r.stop()
			r.pass(at)
			r.freeze(2500 * time.Millisecond)
			if r.passLeased(20 * time.Second) {
				t.Errorf("frozen %s after the heartbeat, the lease ended", at)
			}
			if first := r.client.Servers()[0]; first != "s2:1" {
				t.Errorf("the node talks to %s, want the next leader", first)
			}
		})
	}
}

// A follower is named after the leader in each of its answers, and the node must not turn to the leader each
// time.
func TestAvoided_LeaderIsAskedBesideUntilItAnswers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.servers = []string{"s1:1", "s2:1", "s3:1"}
		r.start(false)
		defer r.stop()
		r.servers.do(func() { r.servers.hang = func(addr, _ string) bool { return addr == "s1:1" } })
		r.pass(10 * time.Second)
		settled := time.Now()
		r.pass(time.Minute)
		got := r.beats("Node.UpdateStatus", settled)
		if len(got["s1:1"]) > 0 || len(got["s2:1"]) != 12 {
			t.Errorf("heartbeats in a minute: %v; want 12 at the second server", got)
		}
		pings := r.beats("Status.Ping", settled)
		// A look at the leader waits for its answer, and the heartbeats meanwhile begin no other.
		if len(pings["s1:1"]) < 5 || len(pings) > 1 {
			t.Errorf("looks at servers: %v; want several, at the leader alone", pings)
		}

		r.servers.do(func() { r.servers.hang = nil })
		r.pass(11 * time.Second)
		if first := r.client.Servers()[0]; first != "s1:1" {
			t.Errorf("the node talks to %s, and the leader answers again", first)
		}
	})
}

// A server that is no leader costs no connections once it is avoided.
func TestAvoided_FollowerIsLookedAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.servers = []string{"s1:1", "s2:1", "s3:1"}
		r.start(false)
		defer r.stop()
		r.servers.do(func() {
			r.servers.servers = []string{"s2:1", "s3:1", "s1:1"}
			r.servers.hang = func(addr, _ string) bool { return addr == "s1:1" }
		})
		begun := time.Now()
		r.pass(time.Minute)
		if pings := r.beats("Status.Ping", begun)["s1:1"]; len(pings) != 1 {
			t.Errorf("%d looks at a server that does not lead, want 1", len(pings))
		}
		if all := r.client.Servers(); !slices.Equal(all, []string{"s2:1", "s3:1", "s1:1"}) {
			t.Errorf("servers: %v", all)
		}
	})
}

// dyingConn is a connection whose flow a firewall may forget: what it sends goes nowhere, without a reset.
type dyingConn struct {
	net.Conn
	forgotten *atomic.Bool
}

func (d dyingConn) Write(b []byte) (int, error) {
	if d.forgotten.Load() {
		return len(b), nil
	}
	return d.Conn.Write(b)
}

// A firewall has forgotten all connections of the node. New ones work.
func TestAskBeside_ConnectsAnewBesideDeadConnections(t *testing.T) {
	p := newFakeServers()
	first := p.listen(t)
	second := p.listen(t)
	c := newConnected(t, first)
	defer c.close()
	forgotten := &atomic.Bool{}
	pool := rpc.NewPool(func(addr string, timeout time.Duration) (net.Conn, error) {
		conn, err := rpc.Dial(addr, timeout)
		return dyingConn{conn, forgotten}, err
	}, hclog.NewNullLogger(), nil)
	defer pool.Close()
	c.pool = pool
	p.servers = []string{first, second}
	for _, addr := range p.servers {
		if _, err := pool.Session(t.Context(), addr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.registration.renewLease(t.Context(), c.registration.register, 0); err != nil {
		t.Fatal(err)
	}
	const ttl = 6 * time.Second
	c.registration.lease.Store(&membership.Lease{Grant: membership.Grant{TTL: ttl}, Since: c.clock()})

	forgotten.Store(true)
	forgotten = &atomic.Bool{} // of the connections from now on
	renewed, err := c.registration.renewLease(t.Context(), c.registration.heartbeat, ttl)
	if err != nil || renewed.addr != second {
		t.Errorf("renewed at %q, %v; want it at %s", renewed.addr, err, second)
	}
}
