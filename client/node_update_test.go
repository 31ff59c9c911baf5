package client

import (
	"testing"
	"time"

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
		if !calls[2].req.(*structs.NodeRegisterRequest).Unsure {
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
