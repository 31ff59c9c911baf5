package client

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/client/config"
	"berth/client/devices"
	"berth/internal/conf"
	"berth/structs"
)

// flip makes the node's driver report another state.
func (r *fixture) flip(info structs.DriverInfo) {
	r.servers.do(func() { r.node = &info })
	select {
	case r.parts.drivers.changes <- struct{}{}:
	default:
	}
}

var (
	broken  = structs.DriverInfo{Detected: true, HealthDescription: "broken"}
	working = structs.DriverInfo{Detected: true, Healthy: true}
)

// failing makes a method fail with an error; nil ends that.
func (p *fakeServers) failing(method string, err error) {
	p.do(func() {
		p.fail = func(_, m string) error {
			if m == method {
				return err
			}
			return nil
		}
	})
}

// wantRegistrations counts the registrations there were in all.
func (r *fixture) wantRegistrations(want int) {
	r.t.Helper()
	if n := len(r.servers.called("Node.Register")); n != want {
		r.t.Fatalf("%d registrations, want %d", n, want)
	}
}

// wantKnown compares the node that the servers know with its driver info.
func (r *fixture) wantKnown(info structs.DriverInfo) {
	r.t.Helper()
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	n := r.servers.nodes[r.client.NodeID()]
	if n == nil || n.Drivers["fake"].Healthy != info.Healthy ||
		(n.Attributes["driver.fake"] == "1") != info.Healthy ||
		!structs.NodeEqual(n, r.client.Node(), structs.IgnoreDriverTimes) {
		r.t.Errorf("the servers know %+v", n)
	}
}

func (r *fixture) lastRegistration() *structs.NodeRegisterRequest {
	calls := r.servers.called("Node.Register")
	return calls[len(calls)-1].req.(*structs.NodeRegisterRequest)
}

// TestRunDrivers_RegistersAChangedDriver: a new time alone, and a reverted change, cause no registration.
func TestRunDrivers_RegistersAChangedDriver(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		r.flip(broken)
		r.pass(nodeBatch)
		r.wantRegistrations(2)
		r.wantKnown(broken)
		if p := r.lastRegistration(); p.Unsure || len(p.CSI) != 1 {
			t.Errorf("sent %+v", p)
		}
		r.flip(structs.DriverInfo{
			Detected:          true,
			HealthDescription: "broken",
			UpdateTime:        time.Now(),
		})
		r.pass(time.Second)
		r.wantRegistrations(2)
		r.flip(working)
		r.pass(nodeBatch / 2)
		r.flip(broken)
		r.pass(time.Second)
		r.wantRegistrations(2)
		r.flip(working)
		r.pass(nodeBatch)
		r.wantRegistrations(3)
		r.wantKnown(working)
	})
}

// TestRunDrivers_IsUnsureAfterALostAnswer: the servers may still write an outdated registration, so the next
// one has to come after it. The node is sure again after an answer.
func TestRunDrivers_IsUnsureAfterALostAnswer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.do(func() {
			r.servers.lose = map[string]bool{"Node.Register": true}
		})
		r.flip(broken)
		r.pass(nodeBatch)
		r.wantKnown(broken)
		r.servers.do(func() { r.servers.lose = nil })
		r.flip(working) // the acknowledged state again
		r.pass(15 * time.Second)
		r.wantKnown(working)
		calls := r.servers.called("Node.Register")
		// Both servers have got the first one.
		if !calls[3].req.(*structs.NodeRegisterRequest).Unsure {
			t.Error("the registration after a lost answer is not unsure")
		}
		r.flip(broken)
		r.pass(time.Second)
		r.wantKnown(broken)
		if r.lastRegistration().Unsure {
			t.Error("a registration that was answered leaves an outcome in doubt")
		}
	})
}

func TestRunDrivers_WaitsForServersThatAreAway(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.failing("Node.Register", structs.NotServedf("no server answers"))
		r.flip(broken)
		r.pass(5 * time.Second)
		if n := len(r.servers.called("Node.Register")); n < 5 {
			t.Errorf("%d attempts", n)
		}
		if n := len(r.servers.called("Node.UpdateStatus")); n == 0 {
			t.Error("no heartbeats meanwhile")
		}
		r.servers.failing("Node.Register", nil)
		r.pass(15 * time.Second)
		r.wantKnown(broken)
		if r.lastRegistration().Unsure {
			t.Error("a rejected registration leaves an outcome in doubt")
		}
	})
}

// TestPluginUpdate_SendsAllAfterALostAnswer: as for the node.
func TestPluginUpdate_SendsAllAfterALostAnswer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		a, b := instance("a", structs.CSIKindNode, true), instance("b", structs.CSIKindNode, true)
		r.parts.plugins.set(a)
		r.run()
		defer r.stop()
		r.pass(time.Second)
		r.servers.do(func() {
			r.servers.lose = map[string]bool{"Node.UpdateCSI": true}
		})
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false), b)
		r.pass(pluginBatch)
		r.servers.do(func() { r.servers.lose = nil })
		r.parts.plugins.set(a) // the acknowledged state again
		r.pass(5 * time.Second)
		calls := r.servers.called("Node.UpdateCSI")
		if last := calls[len(calls)-1].req.(*structs.NodeUpdateCSIRequest); len(calls) != 2 || !last.Full ||
			!last.Unsure {
			t.Errorf("%d reports, the last is %+v", len(calls), last)
		}
		if len(r.servers.csi) != 1 ||
			!r.servers.csi[structs.CSIInstanceKey{PluginID: "a", Kind: structs.CSIKindNode}].Healthy {
			t.Errorf("the servers know %v", r.servers.csi)
		}
	})
}

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
	return conf.Changed(&old, old.WithLive(&next))
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

// TestMeta_ReachesTheServersAtOnce sets metadata over that of the configuration.
func TestMeta_ReachesTheServersAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.reload(func(c *Config) { c.Meta = map[string]string{"rack": "r1", "zone": "a"} })
		if _, err := Meta(r.client, map[string]*string{"rack": new("r2"), "zone": nil}); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if got := r.known().Meta; !maps.Equal(got, map[string]string{"rack": "r2"}) {
			t.Errorf("the servers know the metadata %v, want the rack r2 alone", got)
		}
		meta, err := Meta(r.client, nil)
		if err != nil || len(meta.Static) != 2 || len(meta.Dynamic) != 2 || meta.Meta["rack"] != "r2" {
			t.Errorf("the node has %+v, %v", meta, err)
		}
	})
}
