package control

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

func (w *world) status(node string) string { return state.Node(w.Store.Read(), node).Status }

func TestANodeThatDoesNotComeIsDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		stop := w.lead("leases")
		defer stop()
		synctest.Wait()
		for range 6 {
			if ttl := w.Leases.Renew("n1"); ttl != w.Config.Leases.TTL {
				t.Fatalf("TTL %s", ttl)
			}
			after(w.Config.Leases.TTL)
		}
		if w.status("n1") != structs.NodeReady || w.status("n2") != structs.NodeDown {
			t.Errorf("n1 came and is %s, n2 did not and is %s", w.status("n1"), w.status("n2"))
		}
		events := state.Node(w.Store.Read(), "n2").Events
		if events[len(events)-1].Message != "Node heartbeat missed" {
			t.Errorf("the node's history says %q", events[len(events)-1].Message)
		}
	})
}

func TestANodeIsNotDownBeforeItsLeaseAndGraceAreOver(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		stop := w.lead("leases")
		defer stop()
		synctest.Wait()
		c := w.Config.Leases
		after(c.TTL + c.Grace - time.Millisecond)
		if w.status("n1") != structs.NodeReady {
			t.Error("down too early")
		}
		after(c.Together + 2*time.Millisecond)
		if w.status("n1") != structs.NodeDown {
			t.Error("not down when its lease is over")
		}
	})
}

func TestLeasesThatEndTogetherShareALogEntry(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		stop := w.lead("leases")
		defer stop()
		for i := range 200 {
			id := structs.DeriveID(uint64(i))
			w.addNode(id, false)
			w.Leases.Renew(id)
			time.Sleep(time.Millisecond / 2)
		}
		before := w.written()
		after(time.Minute)
		for n := range state.Nodes(w.Store.Read()) {
			if n.Status != structs.NodeDown {
				t.Fatalf("node %s is %s", n.ID, n.Status)
			}
		}
		if n := w.written() - before; n > 2 {
			t.Errorf("%d log entries for nodes that went together", n)
		}
	})
}

func TestANewLeaderGivesEveryNodeAWholeLease(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		c := w.Config.Leases
		for range 5 {
			stop := w.lead("leases")
			after(c.TTL + c.Grace - time.Second)
			stop()
		}
		if w.status("n1") != structs.NodeReady {
			t.Error("changes of leader took a node down")
		}
		if ttl := w.Leases.Renew("n1"); ttl != c.TTL || len(w.Leases.ends) != 0 {
			t.Error("who does not lead keeps leases")
		}
	})
}

func TestANodeGoesDownWhenTheLogIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		w.logDown(unavailable())
		stop := w.lead("leases")
		defer stop()
		after(time.Minute)
		w.logDown(nil)
		after(2 * time.Second)
		if w.status("n1") != structs.NodeDown {
			t.Errorf("n1 is %s", w.status("n1"))
		}
	})
}

func TestTheTTLGrowsWithTheCluster(t *testing.T) {
	l := NewLeases(LeaseConfig{}, nil)
	l.leading = true
	for i := range 1000 {
		l.Renew(structs.DeriveID(uint64(i)))
	}
	if ttl := l.Renew("n"); ttl != 20*time.Second {
		t.Errorf("a thousand nodes at 50 heartbeats a second come every %s, want 20s", ttl)
	}
}

func TestNextReap(t *testing.T) {
	now := time.Unix(1000, 0)
	ended := &structs.Allocation{ClientStatus: structs.AllocComplete, ModifyTime: now.UnixNano()}
	up, down := &structs.Node{Status: structs.NodeReady}, &structs.Node{Status: structs.NodeDown}
	for name, c := range map[string]struct {
		alloc *structs.Allocation
		node  *structs.Node
		due   time.Time
		ok    bool
	}{
		"runs":              {&structs.Allocation{ClientStatus: structs.AllocRunning}, up, time.Time{}, false},
		"is to stop":        {&structs.Allocation{ClientStatus: structs.AllocRunning, DesiredStatus: structs.AllocDesiredStop}, up, time.Time{}, false},
		"ended":             {ended, up, now.Add(time.Second), true},
		"gone":              {nil, up, time.Time{}, true},
		"ended, node down":  {ended, down, time.Time{}, false},
		"gone, node gone":   {nil, nil, time.Time{}, false},
		"ended, node comes": {ended, &structs.Node{Status: structs.NodeInit}, time.Time{}, false},
	} {
		if due, ok := nextReap(c.alloc, c.node, time.Second); ok != c.ok || !due.Equal(c.due) {
			t.Errorf("%s: %v at %s, want %v at %s", name, ok, due, c.ok, c.due)
		}
	}
}

func TestTheReaperReleasesOnlyAfterTheNodeLetGo(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		claimed := func(alloc string) bool { return state.Claim(w.Store.Read(), "default", "v", alloc) != nil }
		w.addNode("n1", true)
		w.addNode("n2", false)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.addClaim("v", "a2", "n1")
		w.addClaim("v", "a3", "n2")
		busy := true
		w.answers(func(c call) (any, error) {
			if r := c.req.(*structs.ClientCSINodeDetachRequest); r.AllocID != "a1" && r.AllocID != "a3" || r.VolumeID != "v" || r.VolumeNamespace != "default" {
				t.Errorf("asked %s about %+v", c.node, r)
			}
			if busy {
				return nil, structs.Errorf(structs.KindInternal, "device busy")
			}
			return nil, nil
		})
		stop := w.lead("reaper")
		defer stop()
		w.endAlloc("a1", "n1")
		w.endAlloc("a3", "n2")
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeDown})
		after(w.Config.ReapGrace - time.Second)
		if n := len(w.called(structs.ClientCSINodeDetach.Name)); n != 0 {
			t.Errorf("%d calls before the node had time to do it itself", n)
		}
		after(time.Minute)
		if n := len(w.called(structs.ClientCSINodeDetach.Name)); n < 2 || n > 12 || !claimed("a1") {
			t.Errorf("%d calls to a node that does not let go; claimed %v", n, claimed("a1"))
		}
		busy = false
		after(time.Minute)
		if claimed("a1") || !claimed("a2") || !claimed("a3") {
			t.Errorf("claimed: a1 (ended) %v, a2 (runs) %v, a3 (its node is down) %v", claimed("a1"), claimed("a2"), claimed("a3"))
		}
		c := state.Claim(w.Store.Read(), "default", "v", "a3")
		if why := state.ClaimBlocked(w.Store.Read(), c); why == "" && c.State != structs.ClaimGranted {
			t.Error("nothing says why the claim of a node that is down stays")
		}
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n2"}, Status: structs.NodeReady})
		after(time.Minute)
		if claimed("a3") {
			t.Error("the node is back and its claim stays")
		}
		w.check()
	})
}

func TestTheReapersWorkIsRepeatedByTheNextLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		w.addVolume(aVolume("v", structs.VolumeReady))
		w.addClaim("v", "a1", "n1")
		w.endAlloc("a1", "n1")
		w.logDown(unavailable())
		stop := w.lead("reaper")
		after(w.Config.ReapGrace + w.Config.ReapInterval)
		stop()
		first := len(w.called(structs.ClientCSINodeDetach.Name))
		w.logDown(nil)
		stop = w.lead("reaper")
		defer stop()
		after(w.Config.ReapInterval)
		if n := len(w.called(structs.ClientCSINodeDetach.Name)); first == 0 || n != first+1 || state.Claim(w.Store.Read(), "default", "v", "a1") != nil {
			t.Errorf("%d calls, then %d; the claim is not released", first, n)
		}
	})
}

func TestGarbageGoesByItself(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.addNode("n1", true)
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown,
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()}})
		stop := w.lead("gc")
		defer stop()
		after(w.Config.GCKeep.Node - time.Minute)
		if state.Node(w.Store.Read(), "n1") == nil {
			t.Fatal("deleted too early")
		}
		w.logDown(unavailable())
		after(w.Config.GCInterval + time.Minute)
		w.logDown(nil)
		after(w.Config.GCInterval)
		if state.Node(w.Store.Read(), "n1") != nil {
			t.Error("a node that is long down is kept")
		}
	})
}

func TestEveryLoopEndsWithItsContextAndCanRunAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		var names []string
		for _, l := range Loops(w.Deps) {
			names = append(names, l.Name)
			for range 2 {
				stop := start(l.Run)
				after(time.Hour)
				stop()
			}
		}
		if want := []string{"leases", "schedule", "controllers", "reaper", "gc"}; !slices.Equal(names, want) {
			t.Errorf("loops %v, want %v", names, want)
		}
		if n := w.written(); n != 0 {
			t.Errorf("%d log entries in an empty cluster", n)
		}
	})
}
