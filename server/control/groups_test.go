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
	"berth/state/csi/snapshot"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

const (
	createGroup = "ClientCSI.ControllerCreateGroupSnapshot"
	deleteGroup = "ClientCSI.ControllerDeleteGroupSnapshot"
)

// groupStore is a plugin that has groups by their names. Its answers are scripted by RPC.
type groupStore struct {
	mu     sync.Mutex
	byName map[string]*storage.CSIGroup
	made   int
	polls  int // answers that tell that a group is not ready, still to be given
	fails  map[string][]error
	// before is called before each call is carried out, nil for nothing.
	before func(c nodeCall)
}

func (s *groupStore) answer(c nodeCall) (any, error) {
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
	case *nodecalls.ClientCSIGroupRequest:
		g := s.byName[req.Name]
		if g == nil {
			s.made++
			g = &storage.CSIGroup{ID: fmt.Sprintf("group-%d", s.made), CreateTime: 3}
			for _, source := range req.SourceExternalIDs {
				g.Snapshots = append(g.Snapshots, &storage.CSISnapshot{
					ID:                     g.ID + "-" + source,
					ExternalSourceVolumeID: source,
					SizeBytes:              7,
				})
			}
			s.byName[req.Name] = g
		}
		s.polls--
		g.IsReady = s.polls < 0
		return &nodecalls.ClientCSIGroupResponse{Group: new(*g)}, nil
	case *nodecalls.ClientCSIGroupDeleteRequest:
		for name, g := range s.byName {
			if g.ID != req.ExternalID {
				continue
			}
			if !slices.Equal(req.SnapshotIDs, snapshotIDs(g)) {
				return nil, coded(structs.KindInvalid, "InvalidArgument")
			}
			delete(s.byName, name)
		}
	}
	return nil, nil
}

func snapshotIDs(g *storage.CSIGroup) (ids []string) {
	for _, s := range g.Snapshots {
		ids = append(ids, s.ID)
	}
	return ids
}

func (s *groupStore) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.byName))
}

// withGroups gives the environment a node, the volumes "v" and "w", and the plugin.
func (w *testEnv) withGroups() *groupStore {
	w.t.Helper()
	w.addNode("n1", true)
	w.addVolume(aVolume("v", structs.VolumeReady))
	w.addVolume(aVolume("w", structs.VolumeReady))
	s := &groupStore{byName: map[string]*storage.CSIGroup{}, fails: map[string][]error{}}
	w.setAnswer(s.answer)
	return s
}

// takeGroup records the request for the group "g" of the volumes "w" and "v".
func (w *testEnv) takeGroup() {
	w.t.Helper()
	p := snapshot.GroupsOf([]*structs.CSIVolume{w.volume("w"), w.volume("v")}, "g", "0a1b")
	p.WriteOptions = now()
	p.Group.Parameters = map[string]string{"p": "q"}
	put(w, fsm.SnapshotGroupPut, p)
}

func (w *testEnv) deleteGroup() {
	w.t.Helper()
	put(w, fsm.SnapshotGroupDelete, &storage.SnapshotDeleteEntry{Name: "g", WriteOptions: now()})
}

func (w *testEnv) group() *storage.GroupSnapshot {
	return snapshot.Group(w.Store.Read(), "default", "g")
}

func TestDuty_L3_L4_D6_AGroupIsTakenUnderARecordedNameAndDeletedWithItsIDs(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		plugin.before = func(nodeCall) {
			if g := w.group(); g.Call == nil || !g.Called {
				t.Errorf("the row before the call is %+v", g)
			}
		}
		w.takeGroup()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Minute)
		g := w.group()
		if g.State != storage.SnapshotReady || g.ExternalID != "group-1" || g.CutTime != 3e9 || g.Call != nil {
			t.Errorf("the row is %+v", g)
		}
		for _, id := range []string{"v", "w"} {
			m := csi.Snapshot(w.Store.Read(), "default", "g-"+id)
			if m.State != storage.SnapshotReady || m.ExternalID != "group-1-ext-"+id || m.SizeBytes != 7 {
				t.Errorf("the member is %+v", m)
			}
		}
		req := w.called(createGroup)[0].req.(*nodecalls.ClientCSIGroupRequest)
		if req.Name != "g-0a1b" || !slices.Equal(req.SourceExternalIDs, []string{"ext-w", "ext-v"}) ||
			req.Secrets["k"] != "v" || req.Parameters["p"] != "q" || req.Provider != "pl.csi" {
			t.Errorf("called with %+v", req)
		}

		w.deleteGroup()
		after(time.Minute)
		removal := w.called(deleteGroup)[0].req.(*nodecalls.ClientCSIGroupDeleteRequest)
		if removal.ExternalID != "group-1" || !maps.Equal(removal.Secrets, req.Secrets) ||
			!slices.Equal(removal.SnapshotIDs, []string{"group-1-ext-w", "group-1-ext-v"}) {
			t.Errorf("deleted with %+v", removal)
		}
		if n := len(w.called(deleteSnapshot)); w.group() != nil || len(plugin.ids()) != 0 || n != 0 {
			t.Errorf("left %+v and %v; %d members were deleted alone", w.group(), plugin.ids(), n)
		}
		w.check()
	})
}

func TestDuty_L2_AGroupIsRepeatedUntilReady(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		plugin.polls = 100
		w.takeGroup()
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Second)
		if g := w.group(); g.State != storage.SnapshotPending || g.ExternalID == "" {
			t.Errorf("the row is %+v", g)
		}
		if n := len(w.called(createGroup)); n > 10 {
			t.Errorf("%d calls in 10 s", n)
		}
		after(2 * time.Hour)
		if g := w.group(); g.State != storage.SnapshotReady || g.Polls != 100 {
			t.Errorf("after 100 answers the row is %+v", g)
		}
		first := w.called(createGroup)[0].req.(*nodecalls.ClientCSIGroupRequest)
		for _, c := range w.called(createGroup) {
			req := c.req.(*nodecalls.ClientCSIGroupRequest)
			if req.Name != first.Name || !slices.Equal(req.SourceExternalIDs, first.SourceExternalIDs) ||
				!maps.Equal(req.Parameters, first.Parameters) || !maps.Equal(req.Secrets, first.Secrets) {
				t.Errorf("two calls differ: %+v and %+v", first, req)
			}
		}
	})
}

func TestDuty_L5_L6_L7_AGroupFollowsTheErrorOfItsCreation(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		state string
		calls int
	}{
		"invalid":         {coded(structs.KindInvalid, "InvalidArgument"), storage.SnapshotFailed, 1},
		"L5 exists":       {coded(structs.KindConflict, "AlreadyExists"), storage.SnapshotFailed, 1},
		"L6 not together": {coded(structs.KindPrecondition, "FailedPrecondition"), storage.SnapshotFailed, 1},
		"no source":       {coded(structs.KindNotFound, "NotFound"), storage.SnapshotFailed, 1},
		"denied":          {coded(structs.KindDenied, "PermissionDenied"), storage.SnapshotFailed, 1},
		"L7 aborted":      {coded(structs.KindTimeout, "Aborted"), storage.SnapshotReady, 2},
		"unknown":         {structs.Timeoutf("no answer"), storage.SnapshotReady, 2},
		"internal":        {coded(structs.KindInternal, "Internal"), storage.SnapshotReady, 2},
		"unavailable":     {unavailable(), storage.SnapshotReady, 2},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withGroups()
				plugin.fails[createGroup] = []error{c.err}
				w.takeGroup()
				stop := w.runLoop("controllers")
				defer stop()
				after(10 * time.Minute)
				g := w.group()
				if n := len(w.called(createGroup)); g.State != c.state || n != c.calls {
					t.Errorf("after %d calls the row is %+v", n, g)
				}
				if g.State == storage.SnapshotFailed && !strings.Contains(g.Reason, c.err.Error()) {
					t.Errorf("the reason is %q", g.Reason)
				}
				w.check()
			})
		})
	}
}

// The transport answers RESOURCE_EXHAUSTED, too, so the deletion of the row looks for the group.
func TestDuty_L8_AFullStorageFailsTheGroupAndLeaksNone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		full := true
		w.setAnswer(func(c nodeCall) (any, error) {
			got, err := plugin.answer(c)
			if full && c.method == createGroup {
				return &nodecalls.ClientCSIGroupResponse{Exhausted: "full"}, nil
			}
			return got, err
		})
		w.takeGroup()
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Minute)
		g := w.group()
		if g.State != storage.SnapshotFailed || !strings.Contains(g.Reason, "full") ||
			len(w.called(createGroup)) != 1 {
			t.Errorf("the row is %+v after %d calls", g, len(w.called(createGroup)))
		}
		full = false
		w.deleteGroup()
		after(time.Minute)
		if w.group() != nil || len(plugin.ids()) != 0 {
			t.Errorf("left %+v and %v", w.group(), plugin.ids())
		}
	})
}

func TestDuty_L9_L10_AGroupFollowsTheErrorOfItsDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		stays bool
	}{
		"L10 in use":    {coded(structs.KindPrecondition, "FailedPrecondition"), false},
		"aborted":       {coded(structs.KindTimeout, "Aborted"), false},
		"unknown":       {structs.Timeoutf("no answer"), false},
		"gone":          {coded(structs.KindNotFound, "NotFound"), false},
		"L9 mismatch":   {coded(structs.KindInvalid, "InvalidArgument"), true},
		"unimplemented": {coded(structs.KindPrecondition, "Unimplemented"), true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				plugin := w.withGroups()
				plugin.fails[deleteGroup] = []error{c.err}
				w.takeGroup()
				stop := w.runLoop("controllers")
				defer stop()
				after(time.Minute)
				w.deleteGroup()
				after(10 * time.Minute)
				g := w.group()
				if (g != nil) != c.stays || g != nil && (g.State != storage.SnapshotReady || g.LastError == nil) {
					t.Errorf("the row is %+v", g)
				}
				w.check()
			})
		})
	}
}

// The creation that is repeated to learn the IDs is rejected: then there is nothing to delete.
func TestGroup_WithoutAnAnswerIsGoneOnceThePluginRejectsIt(t *testing.T) {
	for _, err := range []error{
		coded(structs.KindInvalid, "InvalidArgument"),
		coded(structs.KindPrecondition, "FailedPrecondition"),
	} {
		virtual(t, func(t *testing.T, w *testEnv) {
			plugin := w.withGroups()
			plugin.fails[createGroup] = []error{structs.Timeoutf("no answer"), err}
			once := sync.OnceFunc(w.deleteGroup)
			plugin.before = func(nodeCall) { once() }
			w.takeGroup()
			stop := w.runLoop("controllers")
			defer stop()
			after(10 * time.Minute)
			if g := w.group(); g != nil || len(w.called(createGroup)) != 2 || len(w.called(deleteGroup)) != 0 {
				t.Errorf("%v: after %d calls the row is %+v", err, len(w.called(createGroup)), g)
			}
			w.check()
		})
	}
}

// No other group has the name, so the plugin may have this one.
func TestGroup_WithoutAnAnswerStaysWhileThePluginHasItsName(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		exists := coded(structs.KindConflict, "AlreadyExists")
		plugin.fails[createGroup] = append([]error{structs.Timeoutf("no answer")},
			slices.Repeat([]error{exists}, 1000)...)
		once := sync.OnceFunc(w.deleteGroup)
		plugin.before = func(nodeCall) { once() }
		w.takeGroup()
		stop := w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		g := w.group()
		if g == nil || g.State != storage.SnapshotDeleting || g.LastError == nil || g.LastError.Attempts < 3 ||
			!strings.Contains(g.LastError.Message, "volume snapshot group delete -force g: ") {
			t.Fatalf("the row is %+v", g)
		}
		w.check()
	})
}

// An answer without one of the members is repeated: the plugin may have cut the group.
func TestDuty_L4_AnAnswerWithoutAMemberIsNotRecorded(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		short := 2
		w.setAnswer(func(c nodeCall) (any, error) {
			got, err := plugin.answer(c)
			if resp, ok := got.(*nodecalls.ClientCSIGroupResponse); ok && short > 0 {
				short--
				resp.Group.Snapshots = resp.Group.Snapshots[:1]
			}
			return got, err
		})
		w.takeGroup()
		stop := w.runLoop("controllers")
		defer stop()
		after(10 * time.Minute)
		if g := w.group(); g.State != storage.SnapshotReady || len(w.called(createGroup)) != 3 ||
			len(plugin.ids()) != 1 {
			t.Errorf("after %d calls the row is %+v", len(w.called(createGroup)), g)
		}
		w.check()
	})
}

// killedGroups are the lives of a group in which the leader is killed. Each begins before the leader.
var killedGroups = map[string]struct {
	begin func(w *testEnv, plugin *groupStore)
	ends  []int // the numbers of groups of the plugin at the end
}{
	"taken":   {func(*testEnv, *groupStore) {}, []int{1}},
	"pending": {func(_ *testEnv, plugin *groupStore) { plugin.polls = 3 }, []int{1}},
	"deleted while it is cut": {func(w *testEnv, plugin *groupStore) {
		once := sync.OnceFunc(w.deleteGroup)
		plugin.before = func(nodeCall) { once() }
	}, []int{0}},
	"deleted while it is pending": {func(w *testEnv, plugin *groupStore) {
		plugin.polls = 3
		plugin.before = func(nodeCall) {
			if g := w.group(); g != nil && g.State == storage.SnapshotPending {
				w.deleteGroup()
			}
		}
	}, []int{0}},
	"no answer, and deleted": {func(w *testEnv, plugin *groupStore) {
		plugin.fails[createGroup] = []error{structs.Timeoutf("no answer"), structs.Timeoutf("no answer")}
		once := sync.OnceFunc(w.deleteGroup)
		plugin.before = func(nodeCall) { once() }
	}, []int{0}},
	// The error may be lost with the leader. The plugin then answers that the group is ready.
	"failed after the cut": {func(_ *testEnv, plugin *groupStore) {
		plugin.polls = 1
		plugin.fails[createGroup] = []error{nil, coded(structs.KindInvalid, "InvalidArgument")}
	}, []int{0, 1}},
}

func TestGroup_NoneLeaksWithALeaderThatIsKilledAtAnyStep(t *testing.T) {
	for name, life := range killedGroups {
		t.Run(name, func(t *testing.T) {
			for _, late := range []bool{false, true} {
				at := 1
				for died := true; died; at++ {
					virtual(t, func(t *testing.T, w *testEnv) {
						plugin := w.withGroups()
						k := &killer{testEnv: w, plugin: plugin, at: at, late: late}
						w.setAnswer(k.answer)
						w.takeGroup()
						life.begin(w, plugin)
						k.lead(w.Deps)
						died = k.count >= at
						k.at = 0
						k.lead(w.Deps) // the next leader
						k.checkGroup(plugin, life.ends)
					})
				}
				if at < 4 {
					t.Errorf("the leader took %d steps", at)
				}
			}
		})
	}
}

// checkGroup checks that the plugin has exactly the group of the row. A failed row, of which the plugin may
// have a group, finds it once it is deleted.
func (k *killer) checkGroup(plugin *groupStore, ends []int) {
	k.t.Helper()
	g := k.group()
	if g != nil && g.State == storage.SnapshotFailed && g.Called {
		k.deleteGroup()
		k.lead(k.Deps)
		g = k.group()
	}
	names := plugin.ids()
	var known []string
	if g != nil && g.ExternalID != "" {
		known = []string{snapshot.GroupNameAtPlugin(g)}
	}
	if !slices.Equal(names, known) || !slices.Contains(ends, len(names)) || g != nil && g.Unsettled() {
		k.t.Errorf("killed at step %d (late %v): the plugin has %v, the row is %+v", k.count, k.late, names, g)
	}
	if n := len(k.called(deleteSnapshot)); n != 0 {
		k.t.Errorf("%d members were deleted alone", n)
	}
	k.check()
}

// A group is a call for each of its volumes, which have one call in flight.
func TestDuty_C1_C2_AGroupWaitsForTheCallsOfItsVolumes(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		plugin := w.withGroups()
		var mu sync.Mutex
		running := map[string]int{}
		count := func(c nodeCall, add int) {
			mu.Lock()
			defer mu.Unlock()
			var volumes []string
			switch req := c.req.(type) {
			case *nodecalls.ClientCSIGroupRequest:
				volumes = req.SourceExternalIDs
			case *nodecalls.ClientCSIAttachRequest:
				volumes = []string{req.ExternalID}
			}
			for _, v := range volumes {
				running[v] += add
				if running[v] > 1 {
					t.Errorf("%d calls for volume %s at once", running[v], v)
				}
			}
		}
		w.setAnswer(func(c nodeCall) (any, error) {
			count(c, 1)
			time.Sleep(time.Second)
			count(c, -1)
			return plugin.answer(c)
		})
		plugin.polls = 5
		w.takeGroup()
		w.addClaim("v", "a1", "n1")
		w.addClaim("w", "a2", "n1")
		stop := w.runLoop("controllers")
		defer stop()
		after(2 * time.Minute)
		if g := w.group(); g.State != storage.SnapshotReady ||
			w.attachment("v", "n1").State != structs.AttachmentAttached ||
			w.attachment("w", "n1").State != structs.AttachmentAttached {
			t.Errorf("%+v, %+v, %+v", g, w.attachment("v", "n1"), w.attachment("w", "n1"))
		}
	})
}
