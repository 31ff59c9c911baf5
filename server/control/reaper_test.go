package control

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestReaper_ReleasesOnlyAfterTheNodeReleased(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		claimed := func(alloc string) bool {
			return csi.Claim(w.Store.Read(), "default", "v", alloc) != nil
		}
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.addClaim("v", "a2", "n1")
		w.addClaim("v", "a3", "n2")
		var busy atomic.Bool
		busy.Store(true)
		w.setAnswer(func(c nodeCall) (any, error) {
			if r := c.req.(*nodecalls.ClientCSINodeDetachRequest); r.AllocID != "a1" && r.AllocID != "a3" ||
				r.VolumeID != "v" || r.VolumeNamespace != "default" || r.ByOperator {
				t.Errorf("called %s with %+v", c.node, r)
			}
			if busy.Load() {
				return nil, structs.Internalf("device busy")
			}
			return nil, nil
		})
		stop := w.runLoop("reaper")
		defer stop()
		w.endAlloc("a1", "n1")
		w.endAlloc("a3", "n2")
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		after(reapGrace - time.Second)
		if n := len(w.called(nodecalls.ClientCSINodeDetach.Name)); n != 0 {
			t.Errorf("%d calls before the node had time to release the claim", n)
		}
		after(time.Minute)
		if n := len(w.called(nodecalls.ClientCSINodeDetach.Name)); n < 2 || n > 12 || !claimed("a1") {
			t.Errorf("%d calls to a node that does not release; claimed %v", n, claimed("a1"))
		}
		busy.Store(false)
		after(time.Minute)
		if claimed("a1") || !claimed("a2") || !claimed("a3") {
			t.Errorf("claimed: a1 (ended) %v, a2 (runs) %v, a3 (its node is down) %v", claimed("a1"), claimed("a2"),
				claimed("a3"))
		}
		c := csi.Claim(w.Store.Read(), "default", "v", "a3")
		if why := csi.ClaimBlocked(w.Store.Read(), c); why == "" && c.State != structs.ClaimGranted {
			t.Error("claim on a node that is down shows no reason")
		}
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeReady})
		after(time.Minute)
		if claimed("a3") {
			t.Error("claim remains although its node is ready again")
		}
		w.check()
	})
}

func TestReaper_NextLeaderRepeatsTheWork(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.endAlloc("a1", "n1")
		w.log.Fail(unavailable())
		stop := w.runLoop("reaper")
		after(reapGrace + w.Config.Retry.Max)
		stop()
		first := len(w.called(nodecalls.ClientCSINodeDetach.Name))
		w.log.Fail(nil)
		stop = w.runLoop("reaper")
		defer stop()
		after(w.Config.Retry.Max)
		if n := len(w.called(nodecalls.ClientCSINodeDetach.Name)); first == 0 || n != first+1 ||
			csi.Claim(w.Store.Read(), "default", "v", "a1") != nil {
			t.Errorf("%d calls, then %d; the claim is not released", first, n)
		}
	})
}

// A hundred claims have a volume each, and a hundred share one volume.
func TestReaper_BoundsCallsOfNode(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addVolume(aVolume("shared", structs.VolumeReady))
		var allocs []string
		for i := range 100 {
			own := fmt.Sprintf("v%d", i)
			w.addVolume(aVolume(own, structs.VolumeReady))
			allocs = append(allocs, fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
			w.addClaim(own, fmt.Sprintf("a%d", i), "n1")
			w.addClaim("shared", fmt.Sprintf("b%d", i), "n1")
		}
		var running, most, shared, mostShared int
		var mu sync.Mutex
		w.setAnswer(func(c nodeCall) (any, error) {
			count := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				running += by
				most = max(most, running)
				if c.req.(*nodecalls.ClientCSINodeDetachRequest).VolumeID == "shared" {
					shared += by
					mostShared = max(mostShared, shared)
				}
			}
			count(1)
			time.Sleep(time.Millisecond)
			count(-1)
			return nil, nil
		})
		for _, id := range allocs {
			w.endAlloc(id, "n1")
		}
		stop := w.runLoop("reaper")
		defer stop()
		after(reapGrace + w.Config.Retry.Max)
		for range statetest.EndedClaims(w.Store.Read()) {
			t.Fatal("not all claims are released")
		}
		if n := len(w.called(nodecalls.ClientCSINodeDetach.Name)); n != len(allocs) || most > callsPerNode ||
			mostShared != 1 {
			t.Errorf("%d calls, at most %d at once, %d of one volume", n, most, mostShared)
		}
		w.check()
	})
}

func TestReaper_SlowVolumeDelaysNoOther(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		for _, v := range []string{"slow", "v1", "v2"} {
			w.addVolume(aVolume(v, structs.VolumeReady))
			w.addClaim(v, "a-"+v, "n1")
			w.endAlloc("a-"+v, "n1")
		}
		w.setAnswer(func(c nodeCall) (any, error) {
			if c.req.(*nodecalls.ClientCSINodeDetachRequest).VolumeID == "slow" {
				time.Sleep(callTimeout)
			}
			return nil, nil
		})
		stop := w.runLoop("reaper")
		defer stop()
		after(reapGrace + w.Config.Retry.Max)
		left := slices.Collect(statetest.EndedClaims(w.Store.Read()))
		if len(left) != 1 || left[0].VolumeID != "slow" {
			t.Errorf("%d claims remain", len(left))
		}
		after(callTimeout)
		if len(slices.Collect(statetest.EndedClaims(w.Store.Read()))) != 0 {
			t.Error("slow volume is not released")
		}
	})
}
