package client

import (
	"testing"
	"time"

	"berth/structs"
)

// TestIdleNode_SendsOnlyHeartbeats: a node without changes sends only heartbeats, for any number of
// fingerprints of its plugins and drivers.
func TestIdleNode_SendsOnlyHeartbeats(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		registered, asked := len(r.servers.called("Node.Register")), len(r.servers.called("Node.GetClientAllocs"))
		for range 60 {
			r.parts.plugins.set(instance("a", structs.CSIKindNode, true)) // probed again, to the same end
			r.pass(time.Second)
		}
		for method, want := range map[string]int{"Node.UpdateCSI": 0, "Node.UpdateAlloc": 0,
			"Node.Register": registered, "Node.GetClientAllocs": asked} {
			if n := len(r.servers.called(method)); n != want {
				t.Errorf("%d calls of %s in a quiet minute, %d before", n, method, want)
			}
		}
		if n := len(r.servers.called("Node.UpdateStatus")); n < 5 {
			t.Errorf("%d heartbeats in a minute", n)
		}
	})
}

// TestClient_WaitsForABusyServer: a node with a retry time does not call again before it.
func TestClient_WaitsForABusyServer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == "Node.UpdateCSI" {
					return structs.Busy(20*time.Second, "too much to do")
				}
				return nil
			}
		})
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false))
		r.pass(19 * time.Second)
		if n := len(r.servers.called("Node.UpdateCSI")); n != 1 {
			t.Errorf("%d attempts before the server's retry time", n)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(12 * time.Second)
		if n := len(r.servers.called("Node.UpdateCSI")); n != 2 {
			t.Errorf("%d attempts in all, want a second one after the server's retry time", n)
		}
	})
}
