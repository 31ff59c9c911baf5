package loop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/test/oneserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// report registers a node with these plugins, and without others.
func report(t *testing.T, log *oneserver.Log, plugins ...string) {
	req := &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: "n", SecretID: "s", Name: "n", Status: structs.NodeReady},
	}
	for _, id := range plugins {
		req.CSI = append(req.CSI, &structs.CSIPluginInstance{
			Kind:    structs.CSIKindNode,
			NodeID:  "n",
			CSIInfo: structs.CSIInfo{PluginID: id, Provider: "csi", Healthy: true},
		})
	}
	oneserver.Put(t, log, fsm.NodeRegister, req)
}

// run makes rounds with a memory of their number in a minute's interval, and calls each for every round. The
// rounds of the plugin that out names are left out; out may be nil.
func run(t *testing.T, log *oneserver.Log, out *atomic.Value, each func(plugin string, n int)) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Rounds[int]{
			Common: Common{Store: log.Store},
			After:  30 * time.Second,
			Interval: func(_ context.Context, _ *state.ReadTx, id string, _ *int) (time.Duration, bool) {
				return time.Minute, out == nil || out.Load() != id
			},
			Round: func(_ context.Context, id string, n *int) {
				*n++
				each(id, *n)
			},
		}.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// pass lets virtual time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestRounds_FollowTheirTimes: a plugin that is left out is looked at with each tick, and one without a row
// is forgotten.
func TestRounds_FollowTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := oneserver.NewLog()
		report(t, log, "p", "q")
		var out atomic.Value
		out.Store("q")
		var mu sync.Mutex
		got := ""
		run(t, log, &out, func(plugin string, n int) {
			mu.Lock()
			defer mu.Unlock()
			got += fmt.Sprint(plugin, n, " ")
		})
		want := func(when, want string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got != want {
				t.Errorf("%s: rounds %q, want %q", when, got, want)
			}
			got = ""
		}

		pass(29 * time.Second)
		want("before the first", "")
		pass(time.Second)
		want("first", "p1 ")
		pass(Tick)
		out.Store("")
		pass(Tick)
		want("no longer left out", "q1 ")
		pass(Tick)
		want("before the interval has passed", "")
		pass(Tick)
		want("after the interval", "p2 ")

		report(t, log)
		pass(Tick)
		report(t, log, "p")
		pass(2 * Tick)
		want("forgotten meanwhile", "p1 ")
	})
}

func TestRounds_AreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := oneserver.NewLog()
		report(t, log, "a", "b", "c", "d", "e", "f")
		begun := make(chan string, 6)
		end := make(chan struct{})
		run(t, log, nil, func(plugin string, _ int) { begun <- plugin; <-end })
		pass(time.Minute)
		if len(begun) != AtOnce {
			t.Errorf("%d rounds at once, want %d", len(begun), AtOnce)
		}
		close(end)
		synctest.Wait()
		if len(begun) != 6 {
			t.Errorf("%d rounds, want 6", len(begun))
		}
	})
}
