package client

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/level"
	"berth/structs"
)

func TestRegistration_WaitsForTheFirstFingerprints(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(true)
		defer r.stop()
		r.pass(20 * time.Second)
		close(r.parts.drivers.ready)
		close(r.parts.devices.ready)
		r.parts.plugins.set(instance("p", structs.CSIKindNode, true))
		r.pass(time.Second)
		if n := len(r.servers.called("Node.Register")); n != 0 {
			t.Fatalf("%d registrations before the plugins were fingerprinted", n)
		}
		close(r.parts.plugins.ready)
		synctest.Wait()
		calls := r.servers.called("Node.Register")
		if len(calls) != 1 || !isClosed(r.client.Registered()) {
			t.Fatalf("%d registrations", len(calls))
		}
		req := calls[0].req.(*structs.NodeRegisterRequest)
		if len(req.CSI) != 1 || req.CSI[0].PluginID != "p" {
			t.Errorf("plugin instances: %v", req.CSI)
		}
		n := req.Node
		if n.Name != "node1" || n.SecretID == "" || n.Attributes["berth.version"] != "0.1" ||
			n.Attributes["driver.fake"] != "1" || n.Level() != level.Now ||
			n.Attributes["kernel.name"] != "linux" || n.NodeResources.Memory.MemoryMB == 0 {
			t.Errorf("node: %+v", n)
		}
	})
}

func TestRegistration_WaitsForEachFirstFingerprint(t *testing.T) {
	for _, late := range []string{"drivers", "plugins", "devices"} {
		t.Run(late, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				r := newFixture(t)
				r.start(true)
				defer r.stop()
				ready := map[string]chan struct{}{
					"drivers": r.parts.drivers.ready,
					"plugins": r.parts.plugins.ready,
					"devices": r.parts.devices.ready,
				}
				for name, first := range ready {
					if name != late {
						close(first)
					}
				}
				r.pass(20 * time.Second)
				if n := len(r.servers.called("Node.Register")); n != 0 {
					t.Fatalf("%d registrations before the %s were fingerprinted", n, late)
				}
				close(ready[late])
				synctest.Wait()
				if n := len(r.servers.called("Node.Register")); n != 1 {
					t.Fatalf("%d registrations", n)
				}
			})
		})
	}
}

// Two drivers that report one attribute must not make the node another one at each look.
func TestDriverAttributes_ChangeNothingThatIsKnown(t *testing.T) {
	good := func(attributes map[string]string) *structs.DriverInfo {
		return &structs.DriverInfo{Detected: true, Healthy: true, Attributes: attributes}
	}
	for range 20 { // of the orders of a map
		n := &structs.Node{
			Attributes: map[string]string{"kernel.name": "linux"},
			Drivers: map[string]*structs.DriverInfo{
				"exec": good(nil),
				"a":    good(map[string]string{"driver.exec": "true", "kernel.name": "a", "x": "of a"}),
				"b":    good(map[string]string{"x": "of b", "y": "of b"}),
			},
		}
		addDriverAttributes(n)
		want := map[string]string{
			"kernel.name": "linux",
			"driver.exec": "1",
			"driver.a":    "1",
			"driver.b":    "1",
			"x":           "of a",
			"y":           "of b",
		}
		if !maps.Equal(n.Attributes, want) {
			t.Fatalf("got %v, want %v", n.Attributes, want)
		}
	}
}

func TestPluginChanges_AreGatheredForAMoment(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true))
		r.pass(pluginBatch / 2)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true),
			instance("a", structs.CSIKindController, true))
		r.pass(pluginBatch / 4)
		if n := len(r.servers.called("Node.UpdateCSI")); n != 0 {
			t.Fatalf("%d updates before the changes were gathered", n)
		}
		r.pass(time.Second)
		calls := r.servers.called("Node.UpdateCSI")
		if len(calls) != 1 ||
			len(calls[0].req.(*structs.NodeUpdateCSIRequest).Upserts) != 2 {
			t.Errorf("%d updates, want one with both changes", len(calls))
		}
	})
}

func TestRegistration_ProceedsAfterTheTimeout(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		begin := time.Now()
		r.start(true)
		defer r.stop()
		<-r.client.Registered()
		if took := time.Since(begin); took != 50*time.Second {
			t.Errorf("registered after %s, want 50s", took)
		}
	})
}

func TestHeartbeats_RenewTheLease(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(16 * time.Second)
		if n := len(r.servers.called("Node.UpdateStatus")); n != 3 { // at 5, 10 and 15 s
			t.Errorf("%d heartbeats in 16s, want 3", n)
		}
	})
}

func TestHeartbeats_GoToANewLeaderAtOnce(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.do(func() { r.servers.servers = []string{"s2:1", "s1:1"} })
		r.pass(5*time.Second + minBeatGap)
		beats := r.servers.called("Node.UpdateStatus")
		if len(beats) != 2 || beats[0].addr != "s1:1" || beats[1].addr != "s2:1" ||
			beats[1].at.Sub(beats[0].at) > minBeatGap {
			t.Errorf("heartbeats: %+v", beats)
		}
	})
}

func TestRegistration_IsRepeatedForADeletedNode(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.do(func() { clear(r.servers.nodes) })
		r.pass(5 * time.Second)
		if n := len(r.servers.called("Node.Register")); n != 2 {
			t.Errorf("%d registrations, want 2", n)
		}
	})
}

// Servers that do not know the node tell operators how much runs on it.
func TestRegistration_CountsTheAllocationsThatHaveNotEnded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		if got := r.lastRegistration().Allocs; got != 0 {
			t.Errorf("%d allocations before the first one", got)
		}
		r.servers.place(testAlloc("a1"))
		r.servers.place(testAlloc("a2"))
		r.pass(time.Second)
		r.servers.stopAlloc("a1")
		r.pass(time.Minute)
		r.servers.do(func() { clear(r.servers.nodes) })
		r.pass(5 * time.Second)
		if got := r.lastRegistration().Allocs; got != 1 {
			t.Errorf("%d allocations, want the one that has not ended", got)
		}
	})
}

func TestHeartbeats_GoToAnotherServer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.fail = func(addr, _ string) error {
			if addr == "s1:1" {
				return structs.NotServedf("%s: connection refused", addr)
			}
			return nil
		}
		r.servers.servers = []string{"s2:1", "s1:1"}
		r.start(false)
		defer r.stop()
		if !isClosed(r.client.Registered()) || r.client.Servers()[0] != "s2:1" {
			t.Errorf("servers %v", r.client.Servers())
		}
	})
}

func TestHeartbeats_AreRetried(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.fail = func(addr, _ string) error {
			return structs.NotServedf("rejected")
		}
		r.start(false)
		defer r.stop()
		r.pass(3 * time.Minute)
		if n := len(r.servers.called("Node.Register")); n < 2*85 || n > 2*100 {
			t.Errorf("%d tries in 3 minutes at two servers", n)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(15 * time.Second)
		if !isClosed(r.client.Registered()) {
			t.Error("not registered after the servers came back")
		}
	})
}

func TestPluginChanges_AreBatchedAndSentAsDifferences(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true),
			instance("b", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		if n := len(r.servers.called("Node.UpdateCSI")); n != 0 {
			t.Fatalf("%d updates of instances that the registration had", n)
		}
		r.servers.do(func() {
			r.servers.fail = func(_, method string) error {
				if method == "Node.UpdateCSI" {
					return structs.NotServedf("no server answers")
				}
				return nil
			}
		})
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false),
			instance("b", structs.CSIKindNode, true))
		r.pass(pluginBatch / 2)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false),
			instance("a", structs.CSIKindController, true))
		r.pass(pluginBatch)
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(time.Second)
		calls := r.servers.called("Node.UpdateCSI")
		if len(calls) != 3 {
			t.Fatalf("%d updates, want one that failed at both servers and one", len(calls))
		}
		req := calls[2].req.(*structs.NodeUpdateCSIRequest)
		if len(req.Upserts) != 2 ||
			req.Upserts[0].Kind != structs.CSIKindController || req.Full ||
			!slices.Equal(req.Removes,
				[]structs.CSIInstanceKey{{PluginID: "b", Kind: structs.CSIKindNode}}) {
			t.Errorf("upserts %v, removes %v", req.Upserts, req.Removes)
		}
		if len(r.servers.csi) != 2 {
			t.Errorf("the servers know %v", r.servers.csi)
		}
	})
}

// The leader may have granted the lease as soon as the request was sent, however late its answer arrives.
func TestLease_CountsFromBeforeItsRequest(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		hold := 1500 * time.Millisecond
		r.servers.do(func() { r.servers.holdsBeats = hold })
		r.pass(5*time.Second + hold)
		beats := r.servers.called("Node.UpdateStatus")
		if len(beats) != 1 {
			t.Fatalf("%d heartbeats, want 1", len(beats))
		}
		ttl, age := r.client.Lease()
		if ttl != 10*time.Second || age != hold {
			t.Errorf("the lease of %s has the age %s, want 10s and %s", ttl, age, hold)
		}

		r.pass(5*time.Second - hold)
		beats = r.servers.called("Node.UpdateStatus")
		if len(beats) != 2 || beats[1].at.Sub(beats[0].at) != 5*time.Second {
			t.Errorf("heartbeats: %+v; want the second one half a lease after the first", beats)
		}
	})
}

// Go's timers and time.Now do not count a suspend.
func TestLease_IsOverAfterASuspend(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		r.suspended.Store(int64(time.Hour))
		r.pass(5 * time.Second)
		if n := len(r.servers.called("Node.Register")); n != 2 {
			t.Errorf("%d registrations, want a second one: the servers counted this node as down", n)
		}
	})
}

func TestLease_OfAFormerLeaderIsIgnored(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.servers.term = 7
		r.start(false)
		defer r.stop()
		r.servers.do(func() { r.servers.term = 6 })
		r.pass(9 * time.Second)
		if _, age := r.client.Lease(); age != 9*time.Second {
			t.Errorf("the lease was renewed %s ago, by a former leader", age)
		}
		r.servers.do(func() { r.servers.term = 8 })
		r.pass(9 * time.Second)
		if _, age := r.client.Lease(); age >= 9*time.Second {
			t.Errorf("the lease of the next leader was ignored for %s", age)
		}
	})
}

func TestDiffInstances_FindsChanges(t *testing.T) {
	a := instance("a", "node", true)
	b := instance("b", "node", true)
	b2 := instance("b", "node", false)
	c := instance("c", "controller", true)
	up, rm := diffInstances(instancesByKey([]*structs.CSIPluginInstance{a, b}),
		instancesByKey([]*structs.CSIPluginInstance{b2, c}))
	if !reflect.DeepEqual(up, []*structs.CSIPluginInstance{b2, c}) ||
		!reflect.DeepEqual(rm,
			[]structs.CSIInstanceKey{{PluginID: "a", Kind: "node"}}) {
		t.Errorf("upserts %v, removes %v", up, rm)
	}
}

// A registration that waits behind a report to a server without answers ends with its own time limit.
func TestLockNode_WaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := newRegistration(&node{}, newWork(&node{}, nil), newPlugins(&node{}), nil)
		unlock, err := reg.lockNode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := reg.lockNode(limited); !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("got %v", err)
		}
		unlock()
		unlock, err = reg.lockNode(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	})
}
