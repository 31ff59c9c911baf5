package client

import (
	"slices"
	"testing"
	"time"

	"berth/internal/codec"
	"berth/structs"
)

// flip has the node's driver say something else of itself.
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

// failing has a method fail so; nil: no more.
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

// wantCalls counts the registrations and updates there were in all.
func (r *fixture) wantCalls(registrations, updates int) {
	r.t.Helper()
	if n, m := len(r.servers.called("Node.Register")), len(r.servers.called("Node.Update")); n != registrations || m != updates {
		r.t.Fatalf("%d registrations and %d updates, want %d and %d", n, m, registrations, updates)
	}
}

// wantKnown holds the node as the servers know it against what it is.
func (r *fixture) wantKnown() {
	r.t.Helper()
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	if n := r.servers.nodes[r.client.NodeID()]; n == nil || n.Digest() != r.client.Node().Digest() {
		r.t.Errorf("the servers know %+v", n)
	}
}

func (r *fixture) lastUpdate() *structs.NodeUpdateRequest {
	calls := r.servers.called("Node.Update")
	return calls[len(calls)-1].req.(*structs.NodeUpdateRequest)
}

// TestNodeUpdate_SendsAChangedDriverAlone: neither the node nor its plugin instances are sent again.
func TestNodeUpdate_SendsAChangedDriverAlone(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		r.flip(broken)
		r.pass(nodeBatch)
		r.wantCalls(1, 1)
		r.wantKnown()
		p := r.lastUpdate()
		if len(p.Drivers) != 1 || p.Drivers["fake"].Healthy || !slices.Equal(p.AttributesGone, []string{"driver.fake"}) || len(p.Attributes) != 0 ||
			p.Meta != nil || p.Settings != nil || p.SecretID == "" {
			t.Errorf("sent %+v", p)
		}
		small, err := codec.Encode(p)
		whole, err2 := codec.Encode(r.servers.called("Node.Register")[0].req)
		if err != nil || err2 != nil || 3*len(small) > len(whole) {
			t.Errorf("%d bytes, a registration is %d: %v, %v", len(small), len(whole), err, err2)
		}
		r.flip(structs.DriverInfo{Detected: true, HealthDescription: "broken", UpdateTime: time.Now()})
		r.pass(time.Second)
		r.wantCalls(1, 1) // a time alone is no news
		r.flip(working)
		r.pass(nodeBatch / 2)
		r.flip(broken)
		r.pass(time.Second)
		r.wantCalls(1, 1) // nor is what has passed already
		r.flip(working)
		r.pass(nodeBatch)
		r.wantCalls(1, 2)
		r.wantKnown()
	})
}

// TestNodeUpdate_RegistersAgainAfterARejection: older ones, those that know something else of the node, or nothing,
// and those of which it is not known whether they did.
func TestNodeUpdate_RegistersAgainAfterARejection(t *testing.T) {
	for name, before := range map[string]func(r *fixture){
		"older servers": func(r *fixture) { r.servers.rpc = r.servers.serve() },
		"an older one among them": func(r *fixture) {
			r.servers.failing("Node.Update", structs.Errorf(structs.KindPrecondition, "nothing was written"))
		},
		"no answer":              func(r *fixture) { r.servers.failing("Node.Update", structs.Errorf(structs.KindTimeout, "no answer")) },
		"they have forgotten it": func(r *fixture) { r.servers.do(func() { clear(r.servers.nodes) }) },
		"they know of something else": func(r *fixture) {
			r.servers.do(func() {
				for id, n := range r.servers.nodes { // as after an old snapshot was restored
					n = n.Copy()
					n.Attributes["unique.hostname"] = "another"
					r.servers.nodes[id] = n
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.start(false)
				defer r.stop()
				before(r)
				r.flip(broken)
				r.pass(time.Second)
				r.wantCalls(2, 1)
				r.wantKnown()
				if n := r.servers.called("Node.Register")[1].req.(*structs.NodeRegisterRequest).Node; n.Drivers["fake"].Healthy || n.Attributes["driver.fake"] != "" {
					t.Errorf("%+v", n.Drivers["fake"])
				}
				r.servers.failing("Node.Update", nil)
				r.flip(working)
				r.pass(time.Second)
				r.wantKnown()
			})
		})
	}
}

// TestNodeUpdate_RegistersAgainAfterALostAnswer: what may or may not have been done is undone by saying all, though nothing
// differs any more from what was acknowledged.
func TestNodeUpdate_RegistersAgainAfterALostAnswer(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == "Node.Register" {
					return structs.Errorf(structs.KindUnavailable, "busy")
				}
				return nil
			}
			r.servers.lose = map[string]bool{"Node.Update": true}
		})
		r.flip(broken)
		r.pass(nodeBatch)
		r.flip(working) // again what the servers acknowledged
		r.pass(time.Second)
		if n := r.servers.nodes[r.client.NodeID()]; n.Drivers["fake"].Healthy {
			t.Fatal("the update was not done")
		}
		r.servers.do(func() { r.servers.fail, r.servers.lose = nil, nil })
		r.pass(15 * time.Second)
		r.wantKnown()
		sure := func() bool {
			calls := r.servers.called("Node.Register")
			return !calls[len(calls)-1].req.(*structs.NodeRegisterRequest).Unsure
		}
		if sure() {
			t.Error("what is on its way still may come after the registration")
		}
		r.servers.do(func() { clear(r.servers.nodes) })
		r.pass(15 * time.Second)
		if !sure() {
			t.Error("a registration that was answered leaves doubt")
		}
	})
}

func TestNodeUpdate_WaitsForServersThatAreAway(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.failing("Node.Update", structs.Errorf(structs.KindUnavailable, "nobody is there"))
		r.flip(broken)
		r.pass(5 * time.Second)
		if n := len(r.servers.called("Node.Update")); n < 4 {
			t.Errorf("%d attempts", n)
		}
		if n := len(r.servers.called("Node.UpdateStatus")); n == 0 {
			t.Error("no heartbeats meanwhile")
		}
		r.servers.failing("Node.Update", nil)
		r.pass(15 * time.Second)
		r.wantKnown()
		if n := len(r.servers.called("Node.Register")); n != 1 {
			t.Errorf("%d registrations", n)
		}
	})
}

// TestPluginUpdate_SendsAllAfterALostAnswer: as for the node.
func TestPluginUpdate_SendsAllAfterALostAnswer(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		a, b := instance("a", structs.CSIKindNode, true), instance("b", structs.CSIKindNode, true)
		r.parts.plugins.set(a)
		r.run()
		defer r.stop()
		r.pass(time.Second)
		r.servers.do(func() { r.servers.lose = map[string]bool{"Node.UpdateCSI": true} })
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false), b)
		r.pass(pluginBatch)
		r.servers.do(func() { r.servers.lose = nil })
		r.parts.plugins.set(a) // again what the servers acknowledged
		r.pass(5 * time.Second)
		calls := r.servers.called("Node.UpdateCSI")
		if last := calls[len(calls)-1].req.(*structs.NodeUpdateCSIRequest); len(calls) != 2 || !last.Full || !last.Unsure {
			t.Errorf("%d reports, the last is %+v", len(calls), last)
		}
		if len(r.servers.csi) != 1 || !r.servers.csi[structs.CSIInstanceKey{PluginID: "a", Kind: structs.CSIKindNode}].Healthy {
			t.Errorf("the servers know %v", r.servers.csi)
		}
	})
}
