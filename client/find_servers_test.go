package client

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"berth/client/membership"
	"berth/structs"
)

// answerAlone lets only one server answer.
func (r *fixture) answerAlone(at string) {
	r.servers.do(func() {
		r.servers.fail = func(addr, _ string) error {
			if addr != at {
				return structs.NotServedf("%s is off", addr)
			}
			return nil
		}
	})
}

// asked reports whether the node has called a server.
func (r *fixture) asked(addr string) bool {
	return slices.ContainsFunc(r.servers.called("Node.Register"), func(c call) bool { return c.addr == addr })
}

// The servers of the configuration have all moved while the agent did not run. The node reaches those that an
// earlier agent has learned.
func TestServers_AreRememberedByTheNextAgent(t *testing.T) {
	configure := func(addrs ...string) func(*fixture) {
		return func(r *fixture) { r.edit = func(c *Config) { c.Servers = addrs } }
	}
	for _, c := range []struct {
		name   string
		change func(*fixture) // between the agents
		want   bool           // the next one reaches s9
	}{
		{"the same configuration", func(*fixture) {}, true},
		{"its servers in another order", configure("s2:1", "s1:1"), true},
		{"other servers are configured", configure("s7:1"), false},
		{"the node is to join the next cluster", func(r *fixture) {
			err := os.Remove(filepath.Join(r.client.config().StateDir(), membership.ClusterFile))
			if err != nil {
				r.t.Error(err)
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.servers.cluster = "one"
				r.servers.servers = []string{"s9:1"}
				r.start(false)
				r.pass(time.Second)
				r.stop()
				r.answerAlone("s9:1")
				c.change(r)
				r.start(false)
				defer r.stop()
				r.pass(time.Minute)
				if got := isClosed(r.client.Registered()); got != c.want || r.asked("s9:1") != c.want {
					t.Errorf("registered: %t, s9 was asked to: %t; want %t", got, r.asked("s9:1"), c.want)
				}
			})
		})
	}
}

// The configuration comes first: the servers that the node has learned may have been replaced.
func TestServers_OfTheConfigurationComeFirst(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.cluster = "one"
		r.servers.servers = []string{"s9:1"}
		r.start(false)
		r.pass(time.Second)
		r.stop()
		r.prepare(false)
		if got := r.client.Servers(); !slices.Equal(got, []string{"s1:1", "s2:1", "s9:1"}) {
			t.Errorf("the agent begins with %q", got)
		}
		r.run()
		r.stop()
	})
}

// The names of the configuration have other addresses by now, and all that the servers have told are old.
func TestServers_OfTheConfigurationAreTriedAgain(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) { c.Servers = []string{"name:1"} }
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if got := r.client.Servers(); !slices.Equal(got, []string{"s1:1", "s2:1"}) {
			t.Fatalf("the node has learned %q", got)
		}
		r.answerAlone("name:1")
		r.servers.do(func() { r.servers.servers = []string{"s3:1", "name:1"} })
		r.pass(leaseRetry.Max + callTimeout)
		if got := r.client.Servers(); !slices.Contains(got, "s3:1") {
			t.Errorf("the node knows %q, not those that the server by its name tells", got)
		}
	})
}

// An operator configures other servers while a request to one of the former is under way.
func TestServers_OfALateAnswerDoNotReplaceThoseOfAReload(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		beats := func() int { return len(r.servers.called(structs.NodeHeartbeat.Name)) }
		r.servers.do(func() { r.servers.holdsBeats = 3 * time.Second })
		before := beats()
		for range 100 { // within a lease
			if beats() == before {
				r.pass(100 * time.Millisecond)
			}
		}
		r.servers.do(func() {
			r.servers.fail = func(addr, _ string) error {
				if addr == "s9:1" {
					return nil
				}
				return errors.New("this server is not to be called any more")
			}
		})
		r.reload(func(c *Config) { c.Servers = []string{"s9:1"} })
		r.pass(2500 * time.Millisecond) // the answer to the one under way comes
		if got := r.client.Servers(); !slices.Equal(got, []string{"s9:1"}) {
			t.Errorf("the node knows %q", got)
		}
	})
}
