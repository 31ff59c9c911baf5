package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/consul"
	"berth/test/consultest"
)

// passingServers returns the tags of the services of servers in Consul whose checks pass, in order.
func passingServers(t *testing.T, c *consultest.Agent) (tags []string) {
	t.Helper()
	found, _, err := c.API.Health().Service("berth", "", true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		tags = append(tags, e.Service.Tags[0])
	}
	slices.Sort(tags)
	return tags
}

func awaitServers(t *testing.T, c *consultest.Agent, want ...string) {
	t.Helper()
	awaitCondition(t, fmt.Sprint("Consul has the servers ", want), func() bool {
		return slices.Equal(passingServers(t, c), want)
	})
}

// TestAgent_FindsServersInConsul starts a server without retry_join beside a Consul that knows another one.
func TestAgent_FindsServersInConsul(t *testing.T) {
	c := consultest.Start(t, consultest.Options{ACLs: true})
	withConsul := func(edit func(*Config)) func(*Config) {
		return func(cfg *Config) {
			cfg.Consul = consul.DefaultConfig()
			cfg.Consul.Address = c.Addr
			cfg.Consul.Token = consultest.ManagementToken
			cfg.Consul.Tags = []string{"blue"}
			edit(cfg)
		}
	}
	first, _, _ := runServer(t, "s1", withConsul(func(*Config) {}))
	awaitServers(t, c, "http", "rpc", "serf")
	second, end, ended := runServer(t, "s2", withConsul(func(cfg *Config) { cfg.Server.BootstrapExpect = 0 }))
	awaitCondition(t, "both servers have a vote", func() bool {
		return voters(first) == 2 && voters(second) == 2
	})
	awaitServers(t, c, "http", "http", "rpc", "rpc", "serf", "serf")
	far, err := first.consul.Servers(t.Context(), "far", consul.TagSerf)
	if err != nil || len(far) != 0 {
		t.Errorf("servers of another region: %q, %v", far, err)
	}
	near, err := first.consul.Servers(t.Context(), "global", consul.TagRPC)
	if err != nil || !slices.Contains(near, first.server.RPCAddr()) || len(near) != 2 {
		t.Errorf("servers: %q, %v", near, err)
	}
	services, err := c.API.Agent().Services()
	for _, s := range services {
		if !slices.Contains(s.Tags, "blue") {
			t.Errorf("a service without the tag of the configuration: %+v, %v", s, err)
		}
	}
	end(nil)
	<-ended
	services, err = c.API.Agent().Services()
	if err != nil || len(services) != 3 {
		t.Errorf("after the end of a server Consul has %v, %v", services, err)
	}
}

// TestAgent_RunsWithoutConsul has an address at which nobody answers.
func TestAgent_RunsWithoutConsul(t *testing.T) {
	a, _, _ := runServer(t, "s1", func(cfg *Config) { cfg.Consul.Address = "127.0.0.1:1" })
	awaitCondition(t, "the server leads", func() bool {
		_, leads, _, _ := a.server.Leader()
		return leads
	})
	if _, err := a.consul.Servers(t.Context(), "global", consul.TagRPC); err == nil {
		t.Error("servers from nobody")
	}
}

func TestSelf_ShowsNoSecretOfConsul(t *testing.T) {
	a, _, _ := runServer(t, "s1", func(cfg *Config) {
		cfg.Consul.Address = "127.0.0.1:1"
		cfg.Consul.Token = "hush-token"
		cfg.Consul.Auth = "me:hush-password"
	})
	text, err := json.Marshal(local{a}.Self())
	if err != nil || strings.Contains(string(text), "hush") || !strings.Contains(string(text), "127.0.0.1:1") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLocalAddr_IsReachableFromThisMachine(t *testing.T) {
	for _, c := range []struct{ bind, advertised, want string }{
		{"0.0.0.0:4747", "10.0.0.1:9", "127.0.0.1:4747"},
		{"[::]:0", "10.0.0.1:9", "127.0.0.1:9"},
		{"192.0.2.1:4747", "10.0.0.1:9", "192.0.2.1:4747"},
		{"none", "10.0.0.1:9", "10.0.0.1:9"},
	} {
		if got := localAddr(c.bind, c.advertised); got != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.bind, c.advertised, got, c.want)
		}
	}
}
