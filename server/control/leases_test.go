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

func (w *testEnv) status(node string) string {
	return state.Node(w.Store.Read(), node).Status
}

func TestLeases_TakeASilentNodeDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		for range 6 {
			if ttl := w.Leases.Renew("n1"); ttl != w.Config.Leases.TTL {
				t.Fatalf("TTL %s", ttl)
			}
			after(w.Config.Leases.TTL)
		}
		if w.status("n1") != structs.NodeReady ||
			w.status("n2") != structs.NodeDown {
			t.Errorf("n1 sent a heartbeat and is %s, n2 sent none and is %s", w.status("n1"), w.status("n2"))
		}
		events := state.Node(w.Store.Read(), "n2").Events
		if events[len(events)-1].Message != "Node heartbeat missed" {
			t.Errorf("last event of the node is %q", events[len(events)-1].Message)
		}
	})
}

func TestLeases_WaitForLeaseAndGrace(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		c := w.Config.Leases
		after(c.TTL + c.Grace - time.Millisecond)
		if w.status("n1") != structs.NodeReady {
			t.Error("node is down too early")
		}
		after(expiredTogether + 2*time.Millisecond)
		if w.status("n1") != structs.NodeDown {
			t.Error("node is not down after the end of its lease")
		}
	})
}

// A loop that began without leases checks the first one.
func TestLeases_TakeDownANodeThatCameWhileThereWasNone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		w.addNode("n1", true)
		c := w.Config.Leases
		w.Leases.Renew("n1")
		after(c.TTL + c.Grace + expiredTogether + 2*time.Millisecond)
		if w.status("n1") != structs.NodeDown {
			t.Error("node is not down after the end of its lease")
		}
	})
}

func TestLeases_RetainKeepsARenewedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeases(LeaseConfig{TTL: 10 * time.Second})
		l.leading = true
		l.Renew("renewed")
		l.Renew("silent")
		time.Sleep(10 * time.Second)
		now := time.Now()
		nodes := l.expired(now)
		l.Renew("renewed") // while the entry that takes both down fails
		l.retain(nodes, now.Add(time.Second))
		nodes = l.expired(now.Add(time.Second))
		if !slices.Equal(nodes, []string{"silent"}) ||
			!l.earliest.Equal(now.Add(10*time.Second)) {
			t.Errorf("%v expire, the next at %s", nodes, l.earliest)
		}
	})
}

func TestLeases_ThatEndTogetherShareAnEntry(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		stop := w.runLoop("leases")
		defer stop()
		for i := range 200 {
			id := structs.DeriveID(uint64(i))
			w.addNode(id, false)
			w.Leases.Renew(id)
			time.Sleep(time.Millisecond / 2)
		}
		before := w.entryCount()
		after(time.Minute)
		for n := range state.Nodes(w.Store.Read()) {
			if n.Status != structs.NodeDown {
				t.Fatalf("node %s is %s", n.ID, n.Status)
			}
		}
		if n := w.entryCount() - before; n > 2 {
			t.Errorf("%d log entries for leases that ended together", n)
		}
	})
}

// The loss of a whole site takes few entries.
func TestLeases_BoundTheNodesOfAnEntry(t *testing.T) {
	w := newTestEnv(t)
	nodes := make([]string, 2*mostDown+1)
	for i := range nodes {
		nodes[i] = structs.DeriveID(uint64(i))
	}
	leaseLoop{w.Deps}.markDown(t.Context(), nodes)
	if n := w.entryCount(); n != 3 {
		t.Errorf("%d entries for %d nodes", n, len(nodes))
	}
	w.logDown(unavailable())
	w.Leases.startLeading(w.Store)
	leaseLoop{w.Deps}.markDown(t.Context(), nodes)
	if again := w.Leases.expired(time.Now().Add(time.Minute)); len(again) != len(nodes) {
		t.Errorf("%d of %d leases expire again", len(again), len(nodes))
	}
}

func TestLeases_RestartWithALeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		c := w.Config.Leases
		for range 5 {
			stop := w.runLoop("leases")
			after(c.TTL + c.Grace - time.Second)
			stop()
		}
		if w.status("n1") != structs.NodeReady {
			t.Error("a change of the leader marked a node down")
		}
		if ttl := w.Leases.Renew("n1"); ttl != c.TTL || len(w.Leases.ends) != 0 {
			t.Error("a server that does not lead keeps leases")
		}
	})
}

func TestLeases_TakeANodeDownWhenTheLogIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.logDown(unavailable())
		stop := w.runLoop("leases")
		defer stop()
		after(time.Minute)
		w.logDown(nil)
		after(2 * time.Second)
		if w.status("n1") != structs.NodeDown {
			t.Errorf("n1 is %s", w.status("n1"))
		}
	})
}

func TestLeases_TTLGrowsWithTheCluster(t *testing.T) {
	l := NewLeases(LeaseConfig{TTL: 10 * time.Second, MaxPerSecond: 50})
	l.leading = true
	for i := range 1000 {
		l.Renew(structs.DeriveID(uint64(i)))
	}
	if ttl := l.Renew("n"); ttl != 20*time.Second {
		t.Errorf("TTL of a thousand nodes at 50 heartbeats a second is %s, want 20s", ttl)
	}
}

func TestLeases_TenThousandNodesHaveTheConfiguredTTL(t *testing.T) {
	l := newTestEnv(t).Leases
	l.leading = true
	for i := range 20000 {
		if ttl := l.Renew(structs.DeriveID(uint64(i))); i <= 10000 && ttl != l.config.TTL {
			t.Fatalf("%s with %d nodes", ttl, i)
		}
	}
	if ttl := l.Renew("n"); ttl != 2*l.config.TTL {
		t.Errorf("%s with twice as many", ttl)
	}
}

func TestGC_RunsAtItsInterval(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{"n1"},
			Status:       structs.NodeDown,
			WriteOptions: structs.WriteOptions{Now: time.Now().UnixNano()},
		})
		stop := w.runLoop("gc")
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
			t.Error("node is kept long after it went down")
		}
	})
}

func TestLoops_EndWithTheirContextAndCanRunAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		var names []string
		for _, l := range Loops(w.Deps) {
			names = append(names, l.Name)
			for range 2 {
				stop := start(l.Run)
				after(time.Hour)
				stop()
			}
		}
		want := []string{
			"leases", "scheduler_config", "schedule", "controllers", "reaper", "deployments", "drain", "periodic",
			"si_tokens", "gc", "gauges",
		}
		if !slices.Equal(names, want) {
			t.Errorf("loops %v, want %v", names, want)
		}
		if n := w.entryCount(); n != 1 { // the configuration of the scheduler
			t.Errorf("%d log entries in an empty cluster, want 1", n)
		}
	})
}
