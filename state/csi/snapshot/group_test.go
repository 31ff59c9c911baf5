package snapshot_test

import (
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// groupWorld is a state with the ready volumes v and w, and those that tests add.
type groupWorld struct{ store }

func newGroupWorld(t *testing.T) *groupWorld {
	t.Helper()
	w := &groupWorld{store{t, state.New()}}
	w.addVolume("v", structs.VolumeReady)
	w.addVolume("w", structs.VolumeReady)
	return w
}

// write makes an entry, whose error has to have a text; "" is no error.
func (w *groupWorld) write(fault string, do func(*mvcc.WriteTx) error) {
	w.t.Helper()
	w.store.write(fault, do)
	for _, fault := range state.Check(w.Read()) {
		w.t.Error(fault)
	}
}

func (w *groupWorld) addVolume(id, volumeState string) {
	w.t.Helper()
	w.write("", func(tx *mvcc.WriteTx) error {
		return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{
			testVolume(id, volumeState),
		}})
	})
}

// entry is a request for the group g of volumes.
func (w *groupWorld) entry(volumes ...string) *storage.SnapshotGroupPutEntry {
	var rows []*structs.CSIVolume
	for _, id := range volumes {
		rows = append(rows, csi.Volume(w.Read(), "default", id))
	}
	return snapshot.GroupsOf(rows, "g", "0a1b")
}

func (w *groupWorld) put(fault string, p *storage.SnapshotGroupPutEntry) {
	w.t.Helper()
	p.Now = 5
	w.write(fault, func(tx *mvcc.WriteTx) error { return snapshot.GroupPut(tx, p) })
}

func (w *groupWorld) remove(fault string) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotDeleteEntry{Name: "g"}
		p.Namespace = "default"
		return snapshot.GroupDelete(tx, p)
	})
}

// removeRows deletes the rows alone.
func (w *groupWorld) removeRows() {
	w.t.Helper()
	w.write("", func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotDeleteEntry{Name: "g", Force: true}
		p.Namespace = "default"
		return snapshot.GroupDelete(tx, p)
	})
}

func TestDelete_WithForceDeletesTheRowsAlone(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(true))
	w.removeRows()
	if w.group() != nil || w.member("g-v") != nil {
		t.Errorf("the rows are %+v and %+v", w.group(), w.member("g-v"))
	}
}

func (w *groupWorld) group() *storage.GroupSnapshot { return snapshot.Group(w.Read(), "default", "g") }

func (w *groupWorld) member(name string) *storage.VolumeSnapshot {
	return csi.Snapshot(w.Read(), "default", name)
}

// users describes the use of the volume w.
func (w *groupWorld) users() string {
	tx := w.Read()
	return csi.UsersOf(tx, csi.Volume(tx, "default", "w"))
}

func (w *groupWorld) note(fault, op string) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotNoteEntry{Name: "g", Call: &structs.CSICall{NodeID: "n", Op: op}}
		p.Namespace = "default"
		p.RowIndex = w.group().CreateIndex
		return snapshot.GroupNote(tx, p)
	})
}

func (w *groupWorld) outcome(fault, op string, change func(*storage.SnapshotOutcomeEntry)) {
	w.t.Helper()
	p := &storage.SnapshotOutcomeEntry{Name: "g", Outcome: storage.Outcome{Op: op}}
	p.Namespace = "default"
	p.Now = 9
	p.RowIndex = w.group().CreateIndex
	change(p)
	w.write(fault, func(tx *mvcc.WriteTx) error { return snapshot.GroupOutcome(tx, p) })
}

// answer is that of a plugin about the group of v and w.
func answer(ready bool) *storage.CSIGroup {
	return &storage.CSIGroup{ID: "ext-g", CreateTime: 7, IsReady: ready, Snapshots: []*storage.CSISnapshot{
		{ID: "s-w", ExternalSourceVolumeID: "ext-w", SizeBytes: 2},
		{ID: "s-v", ExternalSourceVolumeID: "ext-v", SizeBytes: 1},
	}}
}

func cut(ready bool) func(*storage.SnapshotOutcomeEntry) {
	return func(p *storage.SnapshotOutcomeEntry) { p.Answer = answer(ready) }
}

func failed(final bool) func(*storage.SnapshotOutcomeEntry) {
	return func(p *storage.SnapshotOutcomeEntry) {
		p.Err = &structs.OperationError{Message: "no", Kind: structs.KindInvalid}
		p.Final = final
	}
}

func TestDuty_L4_AGroupRecordsTheIDOfEachMember(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	for _, name := range []string{"g-v", "g-w"} {
		if m := w.member(name); m == nil || m.State != storage.SnapshotCreating || m.Group != "g" ||
			m.Next() != "" {
			t.Errorf("before the cut %s is %+v", name, m)
		}
	}
	w.note("", storage.OpGroupCreate)
	if !w.group().Called || !w.member("g-v").Called {
		t.Error("the call is not recorded")
	}
	w.outcome("", storage.OpGroupCreate, cut(false))
	if g := w.group(); g.State != storage.SnapshotPending || g.ExternalID != "ext-g" || g.CutTime != 7e9 ||
		g.Polls != 1 || g.Call != nil {
		t.Errorf("cut: %+v", g)
	}
	w.outcome("", storage.OpGroupCreate, cut(true))
	if g := w.group(); g.State != storage.SnapshotReady || g.ReadyTime != 9 {
		t.Errorf("ready: %+v", g)
	}
	v, other := w.member("g-v"), w.member("g-w")
	if v.ExternalID != "s-v" || v.SizeBytes != 1 || v.State != storage.SnapshotReady || v.CutTime != 7e9 ||
		v.ReadyTime != 9 || other.ExternalID != "s-w" || other.SizeBytes != 2 {
		t.Errorf("the members are %+v and %+v", v, other)
	}
}

// The plugin may be able to make volumes from a member in some topologies only.
func TestDuty_E4_I8_AMemberHasItsTopologies(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, func(p *storage.SnapshotOutcomeEntry) {
		p.Answer = answer(true)
		zone := &structs.CSITopology{Segments: map[string]string{"zone": "a"}}
		p.Answer.Snapshots[1].AccessibleTopologies = []*structs.CSITopology{zone}
	})
	v, other := w.member("g-v"), w.member("g-w")
	if len(v.AccessibleTopologies) != 1 || v.AccessibleTopologies[0].Segments["zone"] != "a" ||
		other.AccessibleTopologies != nil {
		t.Errorf("the members are %+v and %+v", v, other)
	}
}

// An answer that does not have each member leaves the row, so the call is made again.
func TestOutcome_RejectsAnAnswerWithoutAMember(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	for _, change := range []func(*storage.CSIGroup){
		func(g *storage.CSIGroup) { g.ID = "" },
		func(g *storage.CSIGroup) { g.Snapshots = g.Snapshots[:1] },
		func(g *storage.CSIGroup) { g.Snapshots[0].ID = "s-v" },
	} {
		w.outcome("the answer about group", storage.OpGroupCreate, func(p *storage.SnapshotOutcomeEntry) {
			p.Answer = answer(true)
			change(p.Answer)
		})
	}
	w.outcome("no operation", "x", func(*storage.SnapshotOutcomeEntry) {})
	if g := w.group(); g.State != storage.SnapshotCreating {
		t.Errorf("the row is %+v", g)
	}
}

func TestPut_FindsAnEqualGroupAndRejectsAnother(t *testing.T) {
	w := newGroupWorld(t)
	w.addVolume("x", structs.VolumeReady)
	w.addVolume("young", structs.VolumeCreating)
	w.put("", w.entry("v", "w"))
	first := w.group()
	w.put("", w.entry("w", "v")) // in another order
	if w.group() != first {
		t.Error("an equal request has changed the row")
	}
	w.put("exists already", w.entry("v"))
	w.put("exists already", w.entry("v", "x"))
	other := w.entry("v", "w")
	other.Group.Parameters = map[string]string{"k": "v"}
	w.put("exists already", other)

	change := func(name, fault string, volumes []string, edit func(*storage.SnapshotGroupPutEntry)) {
		t.Helper()
		p := w.entry(volumes...)
		p.Group.Name = name
		for _, m := range p.Members {
			m.Group = name
			m.Name = p.Group.Member(m.VolumeID)
		}
		edit(p)
		w.put(fault, p)
	}
	none := func(*storage.SnapshotGroupPutEntry) {}
	change("h", "not those of its volumes", []string{"x"}, func(p *storage.SnapshotGroupPutEntry) {
		p.Members[0].Name = "own"
	})
	w.addVolume("v-x", structs.VolumeReady)
	change("k-v", "", []string{"x"}, none)
	change("k", "member of group snapshot", []string{"v-x"}, none) // both have a member k-v-x
	change("h", "not those of its volumes", []string{"young"}, none)
	change("h", "not those of its volumes", []string{"x", "x"}, none)
	change("h", "expected 1 to 64", []string{"x"}, func(p *storage.SnapshotGroupPutEntry) { p.Members = nil })
	change("h", "needs a namespace", []string{"x"}, func(p *storage.SnapshotGroupPutEntry) { p.Group.ID = "" })
	change("h", "not those of its volumes", []string{"x"}, func(p *storage.SnapshotGroupPutEntry) {
		p.Members[0].PluginID = "q"
	})
	change("h", "has changed meanwhile", []string{"x"}, func(p *storage.SnapshotGroupPutEntry) {
		p.Members[0].VolumeIndex++
	})
	if snapshot.Group(w.Read(), "default", "h") != nil || w.member("g-x") != nil {
		t.Error("a rejected group has rows")
	}
}

func TestPut_TriesAFailedGroupAgain(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(false))
	w.outcome("", storage.OpGroupCreate, failed(true))
	if g, m := w.group(), w.member("g-v"); g.State != storage.SnapshotFailed ||
		g.Next() != storage.OpGroupDelete ||
		m.State != storage.SnapshotFailed || m.Reason != "no" || m.ExternalID != "s-v" {
		t.Errorf("after a failure: %+v and %+v", g, m)
	}
	w.put("its remains are not deleted yet", w.entry("v", "w"))
	w.outcome("", storage.OpGroupDelete, func(*storage.SnapshotOutcomeEntry) {})
	if m := w.member("g-v"); m.ExternalID != "" || m.Called {
		t.Errorf("the remains are deleted, and the member is %+v", m)
	}
	w.put("", w.entry("v", "w"))
	if g := w.group(); g.State != storage.SnapshotCreating || g.Reason != "" ||
		w.member("g-w").State != storage.SnapshotCreating {
		t.Errorf("tried again: %+v", g)
	}
}

// Of RESOURCE_EXHAUSTED the transport may be the author: then the plugin has the group.
func TestDuty_L8_AGroupWithoutSpaceMayBeAtThePlugin(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, func(p *storage.SnapshotOutcomeEntry) {
		failed(true)(p)
		p.Err.Code = structs.CSICodeExhausted
	})
	if g := w.group(); g.State != storage.SnapshotFailed || !g.MayExist() {
		t.Errorf("the row is %+v", g)
	}
	// The repeated creation tells the IDs to delete, and needs the volumes.
	if got := w.users(); !strings.Contains(got, "berth volume snapshot group delete g") {
		t.Errorf("the volume could be deleted: %q", got)
	}
	w.remove("")
	if g := w.group(); g.Next() != storage.OpGroupLearn {
		t.Errorf("the deletion needs %q", g.Next())
	}
	w.outcome("", storage.OpGroupLearn, func(*storage.SnapshotOutcomeEntry) {}) // there is none
	if w.group() != nil || w.member("g-v") != nil || w.member("g-w") != nil {
		t.Error("rows are left")
	}
}

func TestDuty_I14_I15_AMemberIsDeletedWithItsGroupAlone(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(true))
	w.write("only the group can be deleted: berth volume snapshot group delete g", func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotDeleteEntry{Name: "g-v"}
		p.Namespace = "default"
		return snapshot.Delete(tx, p)
	})

	restored := &structs.CSIVolume{
		Namespace: "default", ID: "r",
		CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", SnapshotID: "s-v"},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating},
	}
	w.write("", func(tx *mvcc.WriteTx) error {
		schema.Volumes.Put(tx, restored)
		return nil
	})
	w.remove("being created from its snapshot \"g-v\"")
	w.write("", func(tx *mvcc.WriteTx) error {
		schema.Volumes.Delete(tx, restored)
		return nil
	})
	w.remove("")
	if g := w.group(); g.Next() != storage.OpGroupDelete || w.member("g-v").State != storage.SnapshotDeleting {
		t.Errorf("the row is %+v", g)
	}
	w.put("is being deleted", w.entry("v", "w"))
	w.outcome("", storage.OpGroupDelete, failed(true))
	if g := w.group(); g.State != storage.SnapshotReady || g.LastError == nil ||
		w.member("g-w").State != storage.SnapshotReady {
		t.Errorf("the plugin has rejected the deletion, and the row is %+v", g)
	}
	w.remove("")
	w.outcome("", storage.OpGroupDelete, func(*storage.SnapshotOutcomeEntry) {})
	if w.group() != nil || w.member("g-v") != nil {
		t.Error("rows are left")
	}
	w.remove("no group snapshot")
}

// A group that was never called needs no plugin to be deleted.
func TestDelete_DropsAGroupThatWasNeverCut(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.remove("")
	if w.group() != nil || w.member("g-v") != nil || w.member("g-w") != nil {
		t.Error("rows are left")
	}
}

// A volume is needed while the creation of a group may be repeated.
func TestVolume_StaysWhileItsGroupIsCut(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	if w.users() == "" {
		t.Error("the volume could be deleted before the cut")
	}
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(false))
	if w.users() == "" {
		t.Error("the volume could be deleted before the group is ready")
	}
	w.outcome("", storage.OpGroupCreate, cut(true))
	if got := w.users(); got != "" {
		t.Errorf("the volume has the user %q", got)
	}
}

// Two rows never have one snapshot, so the deletion of a group cannot destroy that of another row.
func TestOutcome_FailsAGroupWithTheSnapshotOfAnotherRow(t *testing.T) {
	w := newGroupWorld(t)
	w.write("", func(tx *mvcc.WriteTx) error {
		schema.Snapshots.Put(tx, &storage.VolumeSnapshot{
			Namespace: "default", Name: "own", PluginID: "p", Progress: storage.Progress{
				ExternalID: "s-w", State: storage.SnapshotReady},
		})
		return nil
	})
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(true))
	if g := w.group(); g.State != storage.SnapshotFailed || g.Next() != "" ||
		!strings.Contains(g.Reason, "default/own") {
		t.Errorf("the row is %+v", g)
	}
}

func TestNote_RejectsACallThatIsNotNeeded(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("has changed meanwhile", storage.OpGroupDelete)
	w.note("", storage.OpGroupCreate)
	w.note("", storage.OpGroupCreate)
	if !w.group().Unanswered {
		t.Error("the second call does not tell of the first one")
	}
	w.outcome("", storage.OpGroupCreate, failed(true))
	if !w.group().MayExist() {
		t.Error("the first call may have cut the group")
	}
}

func TestKeepDeleted_KeepsAReadyGroupOfARestoredState(t *testing.T) {
	w := newGroupWorld(t)
	w.put("", w.entry("v", "w"))
	w.note("", storage.OpGroupCreate)
	w.outcome("", storage.OpGroupCreate, cut(true))
	w.remove("")
	w.write("", func(tx *mvcc.WriteTx) error { snapshot.KeepDeleted(tx); return nil })
	if g := w.group(); g.State != storage.SnapshotReady || w.member("g-v").State != storage.SnapshotReady {
		t.Errorf("the row is %+v", g)
	}
}
