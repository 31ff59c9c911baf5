package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// snapshotStore is a plugin that has snapshots by their names. Its answers are scripted by RPC.
type snapshotStore struct {
	mu     sync.Mutex
	byName map[string]string // IDs
	made   int
	polls  int // answers that tell that a snapshot is not ready, still to be given
	fails  map[string][]error
	// before is called before each call is carried out, nil for nothing.
	before func(c nodeCall)
}

func newSnapshotStore() *snapshotStore {
	return &snapshotStore{byName: map[string]string{}, fails: map[string][]error{}}
}

func (s *snapshotStore) answer(c nodeCall) (any, error) {
	if s.before != nil {
		s.before(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errs := s.fails[c.method]; len(errs) > 0 {
		s.fails[c.method] = errs[1:]
		if errs[0] != nil {
			return nil, errs[0]
		}
	}

	switch req := c.req.(type) {
	case *nodecalls.ClientCSISnapshotRequest:
		if s.byName[req.Name] == "" {
			s.made++
			s.byName[req.Name] = fmt.Sprintf("snap-%d", s.made)
		}
		s.polls--
		return &nodecalls.ClientCSISnapshotResponse{Snapshot: &storage.CSISnapshot{
			ID:                     s.byName[req.Name],
			ExternalSourceVolumeID: req.SourceExternalID,
			SizeBytes:              7,
			CreateTime:             3,
			IsReady:                s.polls < 0,
		}}, nil
	case *nodecalls.ClientCSISnapshotDeleteRequest:
		maps.DeleteFunc(s.byName, func(_, id string) bool { return id == req.ExternalID })
	}
	return nil, nil
}

func (s *snapshotStore) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.byName))
}

const (
	createSnapshot = "ClientCSI.ControllerCreateSnapshot"
	deleteSnapshot = "ClientCSI.ControllerDeleteSnapshot"
)

// withSnapshots gives the environment a node, the volume "v" and the plugin.
func (w *testEnv) withSnapshots() *snapshotStore {
	w.t.Helper()
	w.addNode("n1", true)
	w.addVolume(aVolume("v", structs.VolumeReady))
	s := newSnapshotStore()
	w.setAnswer(s.answer)
	return s
}

// takeSnapshot records the request for the snapshot "s" of the volume "v".
func (w *testEnv) takeSnapshot() {
	w.t.Helper()
	w.takeSnapshotOf("v", "s")
}

// takeSnapshotOf records the request for a snapshot of a volume.
func (w *testEnv) takeSnapshotOf(volume, name string) {
	w.t.Helper()
	v := w.volume(volume)
	put(w, fsm.SnapshotPut, &storage.SnapshotPutEntry{
		WriteOptions: now(),
		Snapshots: []*storage.VolumeSnapshot{{
			Namespace:        "default",
			Name:             name,
			ID:               "0a1b",
			VolumeID:         volume,
			VolumeIndex:      v.CreateIndex,
			PluginID:         "pl",
			SourceExternalID: v.ExternalID,
			Parameters:       map[string]string{"p": "q"},
		}},
	})
}

func (w *testEnv) deleteSnapshot() {
	w.t.Helper()
	put(w, fsm.SnapshotDelete, &storage.SnapshotDeleteEntry{Name: "s", WriteOptions: now()})
}

func (w *testEnv) snapshot() *storage.VolumeSnapshot {
	return csi.Snapshot(w.Store.Read(), "default", "s")
}

func TestDuty_I1_I6_ASnapshotIsTakenUnderARecordedName(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		plugin.before = func(nodeCall) {
			if s := w.snapshot(); s.State != storage.SnapshotCreating || s.Call == nil || !s.Called {
				t.Errorf("the row before the call is %+v", s)
			}
		}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		s := w.snapshot()
		if s.State != storage.SnapshotReady || s.ExternalID != "snap-1" || s.SizeBytes != 7 || s.CutTime != 3e9 ||
			s.ReadyTime == 0 || s.Call != nil {
			t.Errorf("the row is %+v", s)
		}
		req := w.called(createSnapshot)[0].req.(*nodecalls.ClientCSISnapshotRequest)
		if req.Name != "s-0a1b" || req.SourceExternalID != "ext-v" || req.Secrets["k"] != "v" ||
			req.Parameters["p"] != "q" || req.Provider != "pl.csi" {
			t.Errorf("called with %+v", req)
		}
		w.check()
	})
}

// The plugin is asked again with growing pauses, also for hours, and not at once.
func TestDuty_I2_I13_CreationIsRepeatedUntilReady(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		plugin.polls = 100
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Second)
		if s := w.snapshot(); s.State != storage.SnapshotPending || s.ExternalID != "snap-1" || s.CutTime == 0 {
			t.Errorf("the row is %+v", s)
		}
		if n := len(w.called(createSnapshot)); n > 10 {
			t.Errorf("%d calls in 10 s", n)
		}
		after(2 * time.Hour)
		if s := w.snapshot(); s.State != storage.SnapshotReady || s.Polls != 100 {
			t.Errorf("after 100 answers the row is %+v", s)
		}
		first := w.called(createSnapshot)[0].req.(*nodecalls.ClientCSISnapshotRequest)
		for _, c := range w.called(createSnapshot) {
			if c.req.(*nodecalls.ClientCSISnapshotRequest).Name != first.Name {
				t.Error("the name differs between two calls")
			}
		}
	})
}

// coded is an error of a plugin as it crosses the wire.
func coded(kind structs.Kind, code string) error {
	return &structs.Error{Kind: kind, Code: code, Text: "plugin says " + code}
}

func TestDuty_I9_I10_ASnapshotFollowsTheErrorOfItsCreation(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		state string
		calls int
	}{
		"invalid":       {coded(structs.KindInvalid, "InvalidArgument"), storage.SnapshotFailed, 1},
		"I9 exists":     {coded(structs.KindConflict, "AlreadyExists"), storage.SnapshotFailed, 1},
		"no source":     {coded(structs.KindNotFound, "NotFound"), storage.SnapshotFailed, 1},
		"denied":        {coded(structs.KindDenied, "PermissionDenied"), storage.SnapshotFailed, 1},
		"unimplemented": {coded(structs.KindPrecondition, "Unimplemented"), storage.SnapshotFailed, 1},
		"I10 aborted":   {coded(structs.KindTimeout, "Aborted"), storage.SnapshotReady, 2},
		"unknown":       {structs.Timeoutf("no answer"), storage.SnapshotReady, 2},
		"internal":      {coded(structs.KindInternal, "Internal"), storage.SnapshotReady, 2},
		"unavailable":   {unavailable(), storage.SnapshotReady, 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withSnapshots()
				plugin.fails[createSnapshot] = []error{c.err}
				w.takeSnapshot()
				stop := w.runLoop("controllers")
				defer stop()
				after(10 * time.Minute)
				s := w.snapshot()
				if n := len(w.called(createSnapshot)); s.State != c.state || n != c.calls {
					t.Errorf("after %d calls the row is %+v", n, s)
				}
				if s.State == storage.SnapshotFailed && !strings.Contains(s.Reason, c.err.Error()) {
					t.Errorf("the reason is %q", s.Reason)
				}
				w.check()
			})
		})
	}
}

// The transport answers RESOURCE_EXHAUSTED, too, so the deletion of the row looks for the snapshot.
func TestDuty_I11_C16_AFullStorageFailsTheSnapshotAndLeaksNone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		full := true
		w.setAnswer(func(c nodeCall) (any, error) {
			got, err := plugin.answer(c)
			if full && c.method == createSnapshot {
				return &nodecalls.ClientCSISnapshotResponse{Exhausted: "full"}, nil
			}
			return got, err
		})
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Minute)
		s := w.snapshot()
		if s.State != storage.SnapshotFailed || !strings.Contains(s.Reason, "full") ||
			len(w.called(createSnapshot)) != 1 {
			t.Errorf("the row is %+v after %d calls", s, len(w.called(createSnapshot)))
		}
		full = false
		w.deleteSnapshot()
		after(time.Minute)
		if w.snapshot() != nil || len(plugin.ids()) != 0 {
			t.Errorf("left %+v and %v", w.snapshot(), plugin.ids())
		}
	})
}

// The plugin may have cut the snapshot. Only a repeated creation tells its ID, and that needs the volume.
func TestDuty_I12_AVolumeStaysWhileItsFailedSnapshotMayExist(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		lost := true // the first answer
		w.setAnswer(func(c nodeCall) (any, error) {
			got, err := plugin.answer(c)
			if lost && c.method == createSnapshot {
				lost = false
				return &nodecalls.ClientCSISnapshotResponse{Exhausted: "the message is too large"}, nil
			}
			return got, err
		})
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		deletion := &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: now()}
		_, err := fsm.Propose(t.Context(), w.log, fsm.VolumeDelete, deletion)
		if !structs.IsKind(err, structs.KindPrecondition) ||
			!strings.Contains(err.Error(), "berth volume snapshot delete s") {
			t.Errorf("the deletion of the volume: %v", err)
		}
		w.deleteSnapshot()
		after(time.Minute)
		put(w, fsm.VolumeDelete, deletion)
		after(time.Minute)
		if w.snapshot() != nil || w.volume("v") != nil || len(plugin.ids()) != 0 {
			t.Errorf("left %+v, %+v and %v", w.snapshot(), w.volume("v"), plugin.ids())
		}
		w.check()
	})
}

func TestDuty_I4_AFailedSnapshotIsDeletedAtItsPlugin(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		plugin.polls = 1
		plugin.fails[createSnapshot] = []error{nil, coded(structs.KindInvalid, "InvalidArgument")}
		plugin.fails[deleteSnapshot] = []error{coded(structs.KindPrecondition, "FailedPrecondition")}
		w.takeSnapshot()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		s := w.snapshot()
		if s.State != storage.SnapshotFailed || s.ExternalID != "" || s.LastError != nil ||
			len(plugin.ids()) != 0 ||
			!strings.Contains(s.Reason, "InvalidArgument") {
			t.Errorf("the row is %+v, the plugin has %v", s, plugin.ids())
		}
		w.check()
		w.takeSnapshot() // again
		after(time.Minute)
		if s := w.snapshot(); s.State != storage.SnapshotReady || s.Reason != "" {
			t.Errorf("a second request made %+v", s)
		}
	})
}

func TestDuty_I15_I16_I17_ASnapshotFollowsTheErrorOfItsDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		stays bool
	}{
		"I16 in use":    {coded(structs.KindPrecondition, "FailedPrecondition"), false},
		"I17 aborted":   {coded(structs.KindTimeout, "Aborted"), false},
		"unknown":       {structs.Timeoutf("no answer"), false},
		"gone":          {coded(structs.KindNotFound, "NotFound"), false},
		"I15 of group":  {coded(structs.KindInvalid, "InvalidArgument"), true},
		"unimplemented": {coded(structs.KindPrecondition, "Unimplemented"), true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withSnapshots()
				plugin.fails[deleteSnapshot] = []error{c.err}
				w.takeSnapshot()
				stop := w.runLoop("controllers")
				defer stop()
				after(time.Minute)
				w.deleteSnapshot()
				after(10 * time.Minute)
				s := w.snapshot()
				if (s != nil) != c.stays {
					t.Errorf("the row is %+v", s)
				}
				if s != nil && (s.State != storage.SnapshotReady || s.LastError == nil) {
					t.Errorf("the row is %+v", s)
				}
				w.check()
			})
		})
	}
}

// Nobody looks for what a failed creation has left, so its undoing is never given up.
func TestSnapshot_TheUndoingOfACreationIsRepeatedAfterEachError(t *testing.T) {
	for name, script := range map[string]func(w *testEnv, plugin *snapshotStore){
		"the plugin rejects the deletion of the remains": func(_ *testEnv, plugin *snapshotStore) {
			plugin.polls = 1
			plugin.fails[createSnapshot] = []error{nil, coded(structs.KindInvalid, "InvalidArgument")}
			plugin.fails[deleteSnapshot] = []error{
				coded(structs.KindInvalid, "InvalidArgument"),
				coded(structs.KindConflict, "AlreadyExists"),
				coded(structs.KindPrecondition, "Unimplemented"),
			}
		},
		// Without a code the plugin was not called: the half on the node may lack a capability for a moment.
		"nobody can tell what the creation has made": func(w *testEnv, plugin *snapshotStore) {
			plugin.fails[createSnapshot] = []error{
				structs.Timeoutf("no answer"),
				structs.Invalidf("the plugin makes no snapshots"),
				structs.Conflictf("the plugin makes no snapshots"),
			}
			once := sync.OnceFunc(w.deleteSnapshot)
			plugin.before = func(nodeCall) { once() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withSnapshots()
				w.takeSnapshot()
				script(w, plugin)
				stop := w.runLoop("controllers")
				defer stop()
				after(time.Hour)
				if s := w.snapshot(); len(plugin.ids()) != 0 || s != nil && (s.ExternalID != "" || s.LastError != nil) {
					t.Errorf("the plugin has %v, the row is %+v", plugin.ids(), s)
				}
				w.check()
			})
		})
	}
}

// killedLives are the lives of a snapshot in which the leader is killed. Each begins before the leader.
var killedLives = map[string]struct {
	begin func(w *testEnv, plugin *snapshotStore)
	ends  []int // the numbers of snapshots of the plugin at the end
}{
	"taken":   {func(*testEnv, *snapshotStore) {}, []int{1}},
	"pending": {func(_ *testEnv, plugin *snapshotStore) { plugin.polls = 3 }, []int{1}},
	"deleted while it is cut": {func(w *testEnv, plugin *snapshotStore) {
		once := sync.OnceFunc(w.deleteSnapshot)
		plugin.before = func(nodeCall) { once() }
	}, []int{0}},
	"deleted while it is pending": {func(w *testEnv, plugin *snapshotStore) {
		plugin.polls = 3
		plugin.before = func(c nodeCall) {
			if s := w.snapshot(); s != nil && s.State == storage.SnapshotPending {
				w.deleteSnapshot()
			}
		}
	}, []int{0}},
	"no answer, and deleted": {func(w *testEnv, plugin *snapshotStore) {
		plugin.fails[createSnapshot] = []error{structs.Timeoutf("no answer"), structs.Timeoutf("no answer")}
		once := sync.OnceFunc(w.deleteSnapshot)
		plugin.before = func(nodeCall) { once() }
	}, []int{0}},
	// The error may be lost with the leader. The plugin then answers that the snapshot is ready.
	"failed after the cut": {func(_ *testEnv, plugin *snapshotStore) {
		plugin.polls = 1
		plugin.fails[createSnapshot] = []error{nil, coded(structs.KindInvalid, "InvalidArgument")}
	}, []int{0, 1}},
}

func TestSnapshot_NoneLeaksWithALeaderThatIsKilledAtAnyStep(t *testing.T) {
	for name, life := range killedLives {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				at := 1
				for died := true; died; at++ {
					virtual(t, func(t *testing.T, w *testEnv) {
						plugin := w.withSnapshots()
						k := &killer{testEnv: w, plugin: plugin, at: at, late: late}
						w.setAnswer(k.answer)
						w.takeSnapshot()
						life.begin(w, plugin)
						k.lead(w.Deps)
						died = k.count >= at
						k.at = 0
						k.lead(w.Deps) // the next leader
						k.checkEnd(plugin, life.ends)
					})
				}
				if at < 4 {
					t.Errorf("the leader took %d steps", at)
				}
			}
		})
	}
}

// checkEnd checks that the plugin has exactly the snapshots of the rows. A failed row, of which the plugin
// may have a snapshot, finds it once it is deleted.
func (k *killer) checkEnd(plugin *snapshotStore, ends []int) {
	k.t.Helper()
	s := k.snapshot()
	if s != nil && s.State == storage.SnapshotFailed && s.Called {
		k.deleteSnapshot()
		k.lead(k.Deps)
		s = k.snapshot()
	}
	ids := plugin.ids()
	var known []string
	if s != nil && s.ExternalID != "" {
		known = []string{s.ExternalID}
	}
	if !slices.Equal(ids, known) || !slices.Contains(ends, len(ids)) || s != nil && s.Unsettled() {
		k.t.Errorf("killed at step %d (late %v): the plugin has %v, the row is %+v", k.count, k.late, ids, s)
	}
	k.check()
}

// A volume and its snapshots have one call in flight.
func TestDuty_C1_C2_ASnapshotWaitsForTheCallsOfItsVolume(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withSnapshots()
		var mu sync.Mutex
		running, most := 0, 0
		w.setAnswer(func(c nodeCall) (any, error) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			if c.method == createSnapshot {
				return plugin.answer(c)
			}
			return nil, nil
		})
		w.takeSnapshot()
		w.addClaim("v", "a1", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		if w.snapshot().State != storage.SnapshotReady ||
			w.attachment("v", "n1").State != structs.AttachmentAttached || most != 1 {
			t.Errorf("%d calls at once; %+v, %+v", most, w.snapshot(), w.attachment("v", "n1"))
		}
	})
}
