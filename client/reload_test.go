package client

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/client/config"
	"berth/client/devices"
	"berth/internal/hclconf"
	"berth/structs"
)

// reload gives the agent a copy of its configuration with changes.
func (r *fixture) reload(edit func(*Config)) {
	next := *r.client.config()
	edit(&next)
	r.client.Reload(&next)
	r.pass(time.Second)
}

// known returns the node's row of the servers.
func (r *fixture) known() *structs.Node {
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	return r.servers.nodes[r.client.NodeID()]
}

// liveSettings returns the settings that a running agent takes over.
func liveSettings() []string {
	var old, next config.Config
	fields := reflect.ValueOf(&next).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		}
	}
	return hclconf.Changed(&old, old.WithLive(&next))
}

// TestReload_RegistersEachLiveSetting changes each live setting and finds it at the servers, without an
// effect on the task that runs.
func TestReload_RegistersEachLiveSetting(t *testing.T) {
	changes := map[string]struct {
		edit  func(*Config)
		known func(r *fixture) bool
	}{
		"meta": {
			func(c *Config) { c.Meta = map[string]string{"rack": "r2"} },
			func(r *fixture) bool { return maps.Equal(r.known().Meta, map[string]string{"rack": "r2"}) },
		},
		"node_class": {
			func(c *Config) { c.NodeClass = "big" },
			func(r *fixture) bool { return r.known().NodeClass == "big" },
		},
		"device": {
			func(c *Config) {
				c.Devices = []*devices.HostGroup{{ID: "linux/misc/fuse", Paths: []string{"/dev/fuse"}}}
			},
			func(r *fixture) bool {
				groups := r.known().NodeResources.Devices
				return len(groups) == 1 && groups[0].Name == "linux/misc/fuse"
			},
		},
		"host_volume": {
			func(c *Config) { c.HostVolumes = []*config.HostVolume{{Name: "data", Path: "/"}} },
			func(r *fixture) bool { return r.known().HostVolumes["data"] != nil },
		},
		"servers": {
			func(c *Config) { c.Servers = []string{"s9:1"} },
			func(r *fixture) bool { // the server that answers names the others again
				return slices.ContainsFunc(r.servers.called("Node.UpdateStatus"), func(c call) bool {
					return c.addr == "s9:1"
				})
			},
		},
	}
	live := liveSettings()
	for _, name := range live {
		c, listed := changes[name]
		if !listed {
			t.Errorf("no change of the live setting %s is tested", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.start(false)
				defer r.stop()
				r.servers.place(testAlloc("a1"))
				r.pass(time.Second)
				if c.known(r) {
					t.Fatal("the servers know it before the change")
				}
				log := len(r.machine.Log())
				r.reload(c.edit)
				if !c.known(r) {
					t.Errorf("the servers know %+v; the node's servers are %q", r.known(), r.client.Servers())
				}
				if after := r.machine.Log()[log:]; len(after) > 0 {
					t.Errorf("the task was touched: %q", after)
				}
			})
		})
	}
	if len(changes) != len(live) {
		t.Errorf("%d changes are tested, the live settings are %q", len(changes), live)
	}
}

// TestReload_ReachesServersThatTheNodeDidNotKnow: all servers have moved, and the node has a new list.
func TestReload_ReachesServersThatTheNodeDidNotKnow(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.fail = func(addr, _ string) error {
			if addr != "s9:1" {
				return structs.NotServedf("%s is off", addr)
			}
			return nil
		}
		r.servers.servers = []string{"s9:1"}
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if r.known() != nil {
			t.Fatal("the node reached servers that are off")
		}
		r.reload(func(c *Config) { c.Servers = []string{"s9:1"} })
		r.pass(leaseRetry.Max)
		if r.known() == nil {
			t.Error("the node does not call its new servers")
		}
	})
}

func TestReload_KeepsAllOtherSettings(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		before := *r.client.config()
		r.reload(func(c *Config) {
			c.NodePool = "other"
			c.NodeName = "other"
			c.Datacenter = "other"
			c.Reserved.CPU = 100
			c.GCMaxAllocs = 1
			c.DataDir = "/other"
			c.Meta = map[string]string{"rack": "r2"}
		})
		before.Meta = map[string]string{"rack": "r2"}
		if now := r.client.config(); now.NodePool != before.NodePool || now.NodeName != before.NodeName ||
			now.Datacenter != before.Datacenter || now.Reserved != before.Reserved ||
			now.GCMaxAllocs != before.GCMaxAllocs || now.DataDir != before.DataDir {
			t.Errorf("got %+v, want %+v", now, before)
		}
		if n := r.known(); n.NodePool != before.NodePool || n.Name != before.NodeName || n.Meta["rack"] != "r2" {
			t.Errorf("the servers know %+v", n)
		}
		registrations := len(r.servers.called("Node.Register"))
		r.reload(func(*Config) {})
		r.wantRegistrations(registrations)
	})
}

// The caller of New may change its configuration, for example the file's one in a reload.
func TestNew_KeepsItsOwnConfiguration(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		var given *Config
		r.edit = func(c *Config) {
			c.Meta = map[string]string{"rack": "r1"}
			given = c
		}
		r.start(false)
		defer r.stop()
		given.Meta["rack"] = "r2"
		given.Servers[0] = "other:1"
		if now := r.client.config(); now.Meta["rack"] != "r1" || now.Servers[0] != "s1:1" {
			t.Errorf("the client has %v and the servers %v", now.Meta, now.Servers)
		}
	})
}
