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

// renew renews the lease of a node.
func (w *testEnv) renew(node string) {
	w.t.Helper()
	grant, err := w.Leases.Renew(node, &structs.AgentProof{BootID: "b1", Nonce: "x"})
	if err != nil || grant.HeartbeatTTL != w.Config.Leases.TTL {
		w.t.Errorf("granted %+v, %v", grant, err)
	}
}

func TestLeases_TakeASilentNodeDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.addNode("n2", false)
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		for range 6 {
			w.renew("n1")
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
		after(time.Second)
		if w.status("n1") != structs.NodeDown {
			t.Error("node is not down after the end of its lease")
		}
	})
}

func TestLeases_ThatEndTogetherShareAnEntry(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		for i := range 200 {
			id := structs.DeriveID(uint64(i))
			w.addNode(id, false)
			w.renew(id)
			time.Sleep(time.Millisecond / 2)
		}
		before := w.log.Len()
		after(time.Minute)
		for n := range state.Nodes(w.Store.Read()) {
			if n.Status != structs.NodeDown {
				t.Fatalf("node %s is %s", n.ID, n.Status)
			}
		}
		if n := w.log.Len() - before; n > 2 {
			t.Errorf("%d log entries for leases that ended together", n)
		}
	})
}

func TestLeases_TakeANodeDownWhenTheLogIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		stop := w.runLoop("leases")
		defer stop()
		synctest.Wait()
		w.log.Fail(unavailable())
		after(time.Minute)
		w.log.Fail(nil)
		after(2 * time.Second)
		if w.status("n1") != structs.NodeDown {
			t.Errorf("n1 is %s", w.status("n1"))
		}
	})
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
		w.log.Fail(unavailable())
		after(w.Config.GCInterval + time.Minute)
		w.log.Fail(nil)
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
			"leases", "scheduler_config", "schedule", "controllers", "capacity", "drift", "volume_health", "reaper",
			"fence",
			"lease_proofs", "seal_secrets", "signing_keys", "deployments", "drain", "growth", "periodic",
			"snapshot_schedules", "si_tokens", "gc", "authority", "gauges",
		}
		if !slices.Equal(names, want) {
			t.Errorf("loops %v, want %v", names, want)
		}
		if n := w.log.Len(); n != 2 { // the configuration of the scheduler and the bound of leases
			t.Errorf("%d log entries in an empty cluster, want 2", n)
		}
	})
}
