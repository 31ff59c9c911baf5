package control

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// withWriters gives the environment allocations with the volume "v" on n1, whose tasks db and log have
// commands for snapshots of it: a1 runs and writes, a2 is pending, and a3 only reads.
func (w *testEnv) withWriters() {
	w.t.Helper()
	commands := &structs.SnapshotCommands{Pre: []string{"pre"}, Post: []string{"post"}, Timeout: time.Second}
	mount := []*structs.VolumeMount{{Volume: "other", Snapshot: commands}, {Volume: "data", Snapshot: commands}}
	group := &structs.TaskGroup{
		Name:  "g",
		Count: 3,
		Volumes: map[string]*structs.VolumeRequest{
			"data":  {Name: "data", Type: structs.VolumeTypeCSI, Source: "v"},
			"other": {Name: "other", Type: structs.VolumeTypeCSI, Source: "w"},
		},
		Tasks: []*structs.Task{
			{Name: "web", VolumeMounts: []*structs.VolumeMount{{Volume: "data"}}},
			{Name: "db", VolumeMounts: mount},
			{Name: "log", VolumeMounts: mount[1:]},
		},
	}
	put(w, fsm.JobRegister, &structs.JobRegisterRequest{
		Job:          &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{group}},
		WriteOptions: now(),
	})
	for i, id := range []string{"a1", "a2", "a3"} {
		mode := structs.ClaimWrite
		if id == "a3" {
			mode = structs.ClaimRead
		}
		put(w, fsm.PlanApply, &structs.Plan{
			WriteOptions:   now(),
			JobModifyIndex: state.Job(w.Store.Read(), "default", "j").JobModifyIndex,
			Eval:           &structs.Evaluation{ID: "e-" + id, JobID: "j", Status: structs.EvalComplete},
			Place: []*structs.Allocation{{
				ID: id, Name: fmt.Sprintf("j.g[%d]", i), JobID: "j", TaskGroup: "g", NodeID: "n1",
			}},
		})
		put(w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: "n1", Claims: []*structs.CSIClaim{{
			VolumeID: "v", AllocID: id, Mode: mode,
			AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
		}}})
	}
	put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
		NodeID: "n1",
		Allocs: []*structs.AllocClientUpdate{
			{ID: "a1", ClientStatus: structs.AllocRunning},
			{ID: "a3", ClientStatus: structs.AllocRunning},
		},
	})
}

const (
	quiesceTask = "ClientCSI.Quiesce"
	resumeTask  = "ClientCSI.Resume"
)

// order returns the calls about snapshots in their order.
func (w *testEnv) order() (order []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		switch req := c.req.(type) {
		case *nodecalls.QuiesceRequest:
			order = append(order, strings.Join([]string{
				strings.TrimPrefix(c.method, "ClientCSI."), c.node, req.AllocID, req.Task, req.VolumeID,
			}, " "))
		case *nodecalls.ClientCSISnapshotRequest:
			order = append(order, "cut")
		}
	}
	return order
}

// whole are the calls for a snapshot that is cut at once.
var whole = []string{
	"Quiesce n1 a1 db v", "Quiesce n1 a1 log v",
	"cut",
	"Resume n1 a1 db v", "Resume n1 a1 log v",
}

func TestQuiesce_ComesBeforeTheCutAndResumeAfterIt(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		plugin.polls = 2 // further calls do not cut it again
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		got := w.order()
		if !slices.Equal(got, append(slices.Clone(whole), "cut", "cut")) {
			t.Errorf("the calls are %q", got)
		}
		s := w.snapshot()
		if s.State != storage.SnapshotReady ||
			s.Consistency != (storage.Consistency{Level: storage.AppConsistent}) {
			t.Errorf("the row is %+v", s)
		}
		w.check()
	})
}

// A task that cannot be quiesced makes the snapshot fail. Its command may have done a part, so it is resumed.
func TestQuiesce_ThatFailsCutsNothing(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		plugin.fails[quiesceTask] = []error{nil, structs.Timeoutf("no answer")}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		if got := w.order(); !slices.Equal(got, slices.Concat(whole[:2], whole[3:])) {
			t.Errorf("the calls are %q", got)
		}
		s := w.snapshot()
		const reason = "task log of allocation a1: no answer"
		if s.State != storage.SnapshotFailed || s.Called || !strings.Contains(s.Reason, reason) {
			t.Errorf("the row is %+v", s)
		}
	})
}

func TestResume_TellsWhatTheSnapshotIs(t *testing.T) {
	for name, c := range map[string]struct {
		answer *nodecalls.ResumeResponse
		err    error
		level  string
		reason string
	}{
		"late":  {&nodecalls.ResumeResponse{Late: "too late"}, nil, storage.CrashConsistent, "too late"},
		"fault": {&nodecalls.ResumeResponse{Fault: "exit 1"}, nil, storage.AppConsistent, "has failed: exit 1"},
		"lost":  {nil, structs.Timeoutf("away"), storage.CrashConsistent, "whether it was quiesced: away"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withSnapshots()
				w.withWriters()
				w.setAnswer(func(n nodeCall) (any, error) {
					req, _ := n.req.(*nodecalls.QuiesceRequest)
					switch {
					case n.method != resumeTask || req.Task != "db":
						return plugin.answer(n)
					case c.err != nil:
						return nil, c.err
					}
					return c.answer, nil
				})
				w.takeSnapshot()
				stop := w.runLoop("controllers")
				defer stop()
				after(time.Hour)
				s := w.snapshot()
				if s.State != storage.SnapshotReady || s.Consistency.Level != c.level ||
					!strings.Contains(s.Consistency.Reason, "task db of allocation a1: ") ||
					!strings.Contains(s.Consistency.Reason, c.reason) {
					t.Errorf("the row is %+v", s)
				}
			})
		})
	}
}

// A call without an answer may cut the snapshot after the tasks were resumed.
func TestQuiesce_IsNotRepeatedAfterALostAnswer(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		plugin.fails[createSnapshot] = []error{
			structs.Timeoutf("no answer"),
			structs.Errorf(structs.KindInternal, "this is the answer to the second call"),
		}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		if got := w.order(); !slices.Equal(got, append(slices.Clone(whole), "cut", "cut")) {
			t.Errorf("the calls are %q", got)
		}
		s := w.snapshot()
		if s.State != storage.SnapshotReady || s.Consistency.Level != storage.CrashConsistent ||
			!strings.Contains(s.Consistency.Reason, "an earlier call without an answer") {
			t.Errorf("the row is %+v", s)
		}
	})
}

// A call that was answered with an error cuts nothing any more. The next one comes between the commands, too.
func TestQuiesce_IsRepeatedAfterAnError(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		plugin.fails[createSnapshot] = []error{structs.Unavailablef("the plugin starts")}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		if got := w.order(); !slices.Equal(got, slices.Concat(whole, whole)) {
			t.Errorf("the calls are %q", got)
		}
		s := w.snapshot()
		if s.State != storage.SnapshotReady || s.Consistency.Level != storage.AppConsistent {
			t.Errorf("the row is %+v", s)
		}
	})
}

func TestQuiesce_OfAVolumeThatNobodyWritesIsNotNeeded(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withSnapshots()
		w.withWriters()
		w.endAlloc("a1", "n1")
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		if got := w.order(); !slices.Equal(got, []string{"cut"}) {
			t.Errorf("the calls are %q", got)
		}
		if s := w.snapshot(); s.Consistency != (storage.Consistency{}) {
			t.Errorf("the row is %+v", s)
		}
	})
}

// withWrittenVolume adds a volume that a1 writes, too.
func (w *testEnv) withWrittenVolume(id string) {
	w.t.Helper()
	w.addVolume(aVolume(id, structs.VolumeReady))
	put(w, fsm.VolumeClaim, &structs.CSIVolumeClaimRequest{NodeID: "n1", Claims: []*structs.CSIClaim{{
		VolumeID: id, AllocID: "a1", Mode: structs.ClaimWrite,
		AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
	}}})
}

// holdQuiesce makes the commands before the snapshots wait until the test ends one, or closes the channel.
func (w *testEnv) holdQuiesce(plugin *snapshotStore) (end chan struct{}) {
	end = make(chan struct{})
	w.setAnswer(func(c nodeCall) (any, error) {
		switch req := c.req.(type) {
		case *nodecalls.QuiesceRequest:
			if c.method == quiesceTask {
				<-end
			}
		case *nodecalls.ClientCSICreateRequest:
			return created(req.Name), nil
		}
		return plugin.answer(c)
	})
	return end
}

// The commands of tasks take at most half of the calls of a plugin, so other volumes do not wait for them.
func TestQuiesce_LeavesHalfOfTheCallsToOthers(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		w.withWrittenVolume("w")
		w.setCalls(storage.PluginCalls{CallsInFlight: 2})
		end := w.holdQuiesce(plugin)
		w.takeSnapshotOf("v", "s")
		w.takeSnapshotOf("w", "s2")
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		w.addNew("x")
		synctest.Wait()
		if n := len(w.called(quiesceTask)); n != 1 {
			t.Errorf("%d tasks are being quiesced", n)
		}
		if w.volume("x").State != structs.VolumeReady {
			t.Errorf("beside the commands, the volume x is %+v", w.volume("x"))
		}
		close(end)
		after(time.Hour)
		for _, name := range []string{"s", "s2"} {
			s := csi.Snapshot(w.Store.Read(), "default", name)
			if s.State != storage.SnapshotReady || s.Consistency.Level != storage.AppConsistent {
				t.Errorf("the row is %+v", s)
			}
		}
	})
}

// A raised bound frees places at once, and not at the end of a command.
func TestQuiesce_BeginsWithARaisedBound(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		w.withWrittenVolume("w")
		w.setCalls(storage.PluginCalls{CallsInFlight: 2})
		end := w.holdQuiesce(plugin)
		w.takeSnapshotOf("v", "s")
		w.takeSnapshotOf("w", "s2")
		stop := w.runLoop("controllers")
		defer stop()
		defer close(end)
		synctest.Wait()
		w.setCalls(storage.PluginCalls{CallsInFlight: 4})
		synctest.Wait()
		if n := len(w.called(quiesceTask)); n != 2 {
			t.Errorf("%d tasks are being quiesced", n)
		}
	})
}

// The pause of a task does not grow with the number of allocations. The tasks of one are quiesced in order.
func TestQuiesce_QuiescesAllAllocationsAtOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		put(w, fsm.AllocsClientUpdate, &structs.AllocsClientUpdateRequest{
			NodeID: "n1",
			Allocs: []*structs.AllocClientUpdate{{ID: "a2", ClientStatus: structs.AllocRunning}},
		})
		end := w.holdQuiesce(plugin)
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		got := w.order()
		slices.Sort(got)
		if !slices.Equal(got, []string{"Quiesce n1 a1 db v", "Quiesce n1 a2 db v"}) {
			t.Errorf("the calls are %q", got)
		}
		close(end)
		after(time.Hour)
		if got := w.order(); len(got) != 9 || slices.Index(got, "cut") != 4 {
			t.Errorf("the calls are %q", got)
		}
	})
}

// A group is one step for all of its volumes.
func TestQuiesce_OfAGroupIsALongStep(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.withGroups()
		w.withWriters()
		w.takeGroup()
		isLong := func() bool {
			key := rowKey(schema.SnapshotGroupRows, "default", "g")
			return controllerLoop{Deps: w.Deps}.read(w.Store.Read(), key).Long
		}
		if !isLong() {
			t.Error("the step of a group that has writers is not long")
		}
		w.endAlloc("a1", "n1")
		if isLong() {
			t.Error("the step of a group without writers is long")
		}
	})
}

// A creation that failed may have left the snapshot, which the deletion finds by another creation. Nobody
// reads that snapshot.
func TestQuiesce_IsNotNeededForADeletion(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		w.withWriters()
		plugin.fails[createSnapshot] = []error{structs.Unavailablef("the plugin starts")}
		once := sync.OnceFunc(w.deleteSnapshot)
		plugin.before = func(c nodeCall) {
			if c.method == createSnapshot {
				once()
			}
		}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		if got := w.order(); !slices.Equal(got, append(slices.Clone(whole), "cut")) {
			t.Errorf("the calls are %q", got)
		}
		if w.snapshot() != nil || len(plugin.ids()) != 0 {
			t.Errorf("the row is %+v, the plugin has %v", w.snapshot(), plugin.ids())
		}
	})
}
