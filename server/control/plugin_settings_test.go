package control

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/server/control/cluster"
	"berth/server/control/workqueue"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// setCalls changes the settings for the calls of the plugin pl.
func (w *testEnv) setCalls(calls storage.PluginCalls) {
	w.t.Helper()
	put(w, fsm.PluginConfigSet, &storage.PluginSettingsRequest{ID: "pl", PluginCalls: calls})
}

// heldCalls lets creations wait until the test ends one, and then succeed.
func (w *testEnv) heldCalls() (end chan struct{}) {
	end = make(chan struct{})
	w.setAnswer(func(c nodeCall) (any, error) {
		<-end
		return created(c.req.(*nodecalls.ClientCSICreateRequest).Name), nil
	})
	return end
}

// addNew adds volumes that are to be created.
func (w *testEnv) addNew(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.addVolume(aVolume(id, structs.VolumeCreating))
	}
}

// inFlight returns how many calls of the plugin are in flight.
func (w *testEnv) inFlight() int {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running["PluginID pl"]
}

// TestPluginSettings_BoundTheCallsInFlight: a further call waits for the end of one. A change of the setting
// works at once, without another change of a row and in both directions; calls in flight go on.
func TestPluginSettings_BoundTheCallsInFlight(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.setCalls(storage.PluginCalls{CallsInFlight: 2})
		end := w.heldCalls()
		stop := w.runLoop("controllers")
		defer stop()
		defer close(end)
		for i := range 20 {
			w.addNew(fmt.Sprint("v", i))
		}
		expect := func(when string, want int) {
			t.Helper()
			if n := w.inFlight(); n != want {
				t.Errorf("%s %d calls are in flight, want %d", when, n, want)
			}
		}
		expect("with a setting of 2", 2)
		end <- struct{}{}
		expect("after the end of one", 2)
		if n := len(w.called(createMethod)); n != 3 {
			t.Errorf("%d calls were made after one end, want 3", n)
		}

		w.setCalls(storage.PluginCalls{CallsInFlight: 5})
		expect("after a raise to 5", 5)
		w.setCalls(storage.PluginCalls{CallsInFlight: 1})
		expect("after a fall to 1", 5)
		for range 4 {
			end <- struct{}{}
		}
		expect("after four ends", 1)
		end <- struct{}{}
		expect("after five", 1)

		w.setCalls(storage.PluginCalls{})
		expect("without a setting", storage.DefaultCallsInFlight)
	})
}

// TestPluginSettings_OfAnotherPluginChangeNothing: each plugin has calls of its own.
func TestPluginSettings_OfAnotherPluginChangeNothing(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.setCalls(storage.PluginCalls{CallsInFlight: 1})
		end := w.heldCalls()
		stop := w.runLoop("controllers")
		defer stop()
		defer close(end)
		w.addNew("v1", "v2", "v3")
		put(w, fsm.PluginConfigSet, &storage.PluginSettingsRequest{
			ID: "other", PluginCalls: storage.PluginCalls{CallsInFlight: 9},
		})
		if n := w.inFlight(); n != 1 {
			t.Errorf("%d calls are in flight, want 1", n)
		}
	})
}

// timeoutsOf returns the timeouts in the requests of a method.
func (w *testEnv) timeoutsOf(method string) (timeouts []time.Duration) {
	for _, c := range w.called(method) {
		timeouts = append(timeouts, c.req.(interface{ SentTimeout() time.Duration }).SentTimeout())
	}
	return slices.Compact(timeouts)
}

// TestPluginSettings_TimeoutsGoWithTheRequests: those of the controllers and those of the nodes.
func TestPluginSettings_TimeoutsGoWithTheRequests(t *testing.T) {
	const all, controller, node = time.Minute, 2 * time.Minute, 3 * time.Minute
	for name, c := range map[string]struct {
		calls            storage.PluginCalls
		controller, node time.Duration
	}{
		"none": {},
		"all":  {storage.PluginCalls{CallTimeout: all}, all, all},
		"each": {
			storage.PluginCalls{CallTimeout: all, ControllerTimeout: controller, NodeTimeout: node},
			controller, node,
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.setCalls(c.calls)
				w.setAnswer(twoSteps(done))
				stop := w.runLoop("controllers")
				defer stop()
				defer w.runLoop("reaper")()
				w.addVolume(aVolume("v", structs.VolumeReady))
				w.addClaim("v", "a1", "n1")
				synctest.Wait()
				w.grow("v", 20)
				synctest.Wait()
				w.addNew("new")
				synctest.Wait()
				w.endAlloc("a1", "n1")
				after(time.Hour)
				put(w, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"})
				after(time.Hour)
				for method, want := range map[string]time.Duration{
					createMethod:                       c.controller,
					attachMethod:                       c.controller,
					expandMethod:                       c.controller,
					detachMethod:                       c.controller,
					deleteMethod:                       c.controller,
					growMethod:                         c.node,
					nodecalls.ClientCSINodeDetach.Name: c.node,
				} {
					if got := w.timeoutsOf(method); !slices.Equal(got, []time.Duration{want}) {
						t.Errorf("%s has the timeouts %v, want %s", method, got, want)
					}
				}
			})
		})
	}
}

// TestPluginSettings_TheBacklogGrowsOlder: while a call is held, the metrics have the number of those behind
// it and the age of the oldest. They fall with the ends of calls, and with the leadership.
func TestPluginSettings_TheBacklogGrowsOlder(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		sink := metrics.NewInmemSink(time.Hour, time.Hour)
		if _, err := metrics.NewGlobal(&metrics.Config{FilterDefault: true}, sink); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, _ = metrics.NewGlobal(&metrics.Config{}, &metrics.BlackholeSink{})
		}()
		w.Calls = workqueue.NewLoads()
		w.addNode("n1", true)
		w.setCalls(storage.PluginCalls{CallsInFlight: 1})
		end := w.heldCalls()
		defer w.runLoop("controllers")()
		defer close(end)
		stop := w.runLoop("gauges")
		expect := func(when string, inFlight, waiting float32, low, high time.Duration) {
			t.Helper()
			got := gaugesSet(sink)
			age := got["csi.backlog_age_seconds pl"]
			if got["csi.calls_in_flight pl"] != inFlight || got["csi.backlog pl"] != waiting ||
				age < float32(low.Seconds()) || age > float32(high.Seconds()) {
				t.Errorf("%s %v calls are in flight, %v wait, the oldest for %v s; want %v, %v, and %s to %s", when,
					got["csi.calls_in_flight pl"], got["csi.backlog pl"], age, inFlight, waiting, low, high)
			}
		}
		w.addNew("v1")
		after(cluster.GaugeInterval)
		expect("with one call", 1, 0, 0, 0)
		const pause = 40 * time.Second // two of them are less than the time of a call
		w.addNew("v2")
		after(pause)
		w.addNew("v3")
		after(pause)
		expect("behind a held call", 1, 2, 2*pause-cluster.GaugeInterval, 2*pause)
		end <- struct{}{}
		after(cluster.GaugeInterval)
		expect("after its end", 1, 1, pause, pause+2*cluster.GaugeInterval)
		end <- struct{}{}
		end <- struct{}{}
		after(cluster.GaugeInterval)
		expect("after all ends", 0, 0, 0, 0)

		// A call that waits for a controller counts as well. One that failed and has its time does not.
		put(w, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
		w.addNew("v4")
		after(time.Hour)
		expect("without a controller", 0, 1, time.Hour-cluster.GaugeInterval, time.Hour)
		stop()
		expect("at the end of the leadership", 0, 0, 0, 0)
	})
}

// TestPluginSettings_TheLoadIsThatOfTheLeader: of one plugin, and of none once the loop has ended.
func TestPluginSettings_TheLoadIsThatOfTheLeader(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.Calls = workqueue.NewLoads()
		expect := func(when, plugin string, inWork, waiting int, age time.Duration) {
			t.Helper()
			n, m, since := w.Calls.Of(plugin)
			if n != inWork || m != waiting || m > 0 && time.Since(since) != age {
				t.Errorf("%s %s has %d calls in work and %d wait since %s", when, plugin, n, m, since)
			}
		}
		begin := time.Now()
		expect("before the leadership", "pl", 0, 0, 0)
		if !time.Now().Equal(begin) {
			t.Error("a server that does not lead waits for its loop")
		}
		w.addNode("n1", true)
		w.setCalls(storage.PluginCalls{CallsInFlight: 1})
		end := w.heldCalls()
		stop := w.runLoop("controllers")
		w.addNew("v1", "v2")
		after(30 * time.Second)
		expect("while a call is held", "pl", 1, 1, 30*time.Second)
		expect("while a call is held", "other", 0, 0, 0)
		close(end)
		stop()
		expect("after the leadership", "pl", 0, 0, 0)
	})
}
