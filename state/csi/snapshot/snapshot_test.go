package snapshot_test

import (
	"fmt"
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

// world is a state with a ready volume, v, and a snapshot of it, s.
type world struct{ store }

func newWorld(t *testing.T, snapshotState string) *world {
	t.Helper()
	w := &world{store{t, state.New()}}
	w.write("", func(tx *mvcc.WriteTx) error {
		p := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{testVolume("v", structs.VolumeReady)}}
		return csi.VolumePut(tx, p)
	})
	s := w.snapshotOf("s", csi.Volume(w.Read(), "default", "v"))
	s.State = snapshotState
	s.ExternalID = "ext-s"
	s.SizeBytes = 1 << 20
	w.write("", func(tx *mvcc.WriteTx) error {
		schema.Snapshots.Put(tx, s)
		return nil
	})
	return w
}

// store is a state whose entries may be rejected.
type store struct {
	t *testing.T
	*state.Store
}

// write makes an entry, whose error has to have a text; "" is no error.
func (w store) write(fault string, do func(*mvcc.WriteTx) error) {
	w.t.Helper()
	err := w.Write(w.Index()+1, do)
	if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
		w.t.Errorf("got %v, want %q", err, fault)
	}
}

func testVolume(id, volumeState string) *structs.CSIVolume {
	v := &structs.CSIVolume{
		Namespace: "default", ID: id,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:     id,
			PluginID: "p",
			RequestedCapabilities: []*structs.CSIVolumeCapability{{
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: volumeState},
	}
	if volumeState == structs.VolumeReady {
		v.ExternalID = "ext-" + id
	}
	return v
}

func (w *world) snapshotOf(name string, v *structs.CSIVolume) *storage.VolumeSnapshot {
	return &storage.VolumeSnapshot{
		Namespace:        v.Namespace,
		Name:             name,
		ID:               structs.NewID(),
		VolumeID:         v.ID,
		VolumeIndex:      v.CreateIndex,
		PluginID:         v.PluginID,
		SourceExternalID: v.ExternalID,
	}
}

// restore requests a volume from the snapshot.
func (w *world) restore(fault string, bytes int64) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		v := testVolume("restored", structs.VolumeCreating)
		v.SnapshotID = "ext-s"
		v.RequestedCapacityMin = bytes
		return csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	})
}

func (w *world) remove(fault string) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotDeleteEntry{Name: "s"}
		p.Namespace = "default"
		return snapshot.Delete(tx, p)
	})
}

func TestDelete_WithForceDeletesTheRowAlone(t *testing.T) {
	w := newWorld(t, storage.SnapshotReady)
	w.write("", func(tx *mvcc.WriteTx) error {
		p := &storage.SnapshotDeleteEntry{Name: "s", Force: true}
		p.Namespace = "default"
		return snapshot.Delete(tx, p)
	})
	if s := csi.Snapshot(w.Read(), "default", "s"); s != nil {
		t.Errorf("the row is %+v", s)
	}
}

func TestDelete_IsRejectedWhileAVolumeIsMadeFromTheSnapshot(t *testing.T) {
	w := newWorld(t, storage.SnapshotReady)
	w.restore("", 1<<20)
	w.remove(`cannot be deleted while volume "default/restored" is being created from it`)

	w.write("", func(tx *mvcc.WriteTx) error {
		v := csi.Volume(tx, "default", "restored").Copy()
		v.State = structs.VolumeReady
		v.ExternalID = "ext-restored"
		schema.Volumes.Put(tx, v)
		return nil
	})
	w.remove("")
	if s := csi.Snapshot(w.Read(), "default", "s"); s == nil || s.State != storage.SnapshotDeleting {
		t.Errorf("the row is %+v", s)
	}
}

func TestRestore_NeedsAReadySnapshotAndItsSize(t *testing.T) {
	for _, s := range []string{storage.SnapshotPending, storage.SnapshotFailed, storage.SnapshotDeleting} {
		newWorld(t, s).restore("only a ready one can be restored", 1<<20)
	}
	newWorld(t, storage.SnapshotReady).restore("its capacity must allow the 1.0 MiB of snapshot", 1<<19)
}

func TestUnfinishedSnapshot_KeepsItsVolume(t *testing.T) {
	for snapshotState, keeps := range map[string]bool{
		storage.SnapshotCreating: true,
		storage.SnapshotPending:  true,
		storage.SnapshotReady:    false,
	} {
		w := newWorld(t, snapshotState)
		users := csi.UsersOf(w.Read(), csi.Volume(w.Read(), "default", "v"))
		if (users != "") != keeps {
			t.Errorf("beside a snapshot that is %s the users are %q", snapshotState, users)
		}
	}
}

func TestPut_BoundsTheSnapshotsOfANamespace(t *testing.T) {
	w := newWorld(t, storage.SnapshotReady)
	v := csi.Volume(w.Read(), "default", "v")
	w.write("", func(tx *mvcc.WriteTx) error {
		for i := range storage.MaxSnapshots - 2 {
			schema.Snapshots.Put(tx, w.snapshotOf(fmt.Sprint("n", i), v))
		}
		return nil
	})
	w.put("", w.snapshotOf("last", v))
	w.put("delete some of them first", w.snapshotOf("beyond", v))
}

func (w *world) put(fault string, s *storage.VolumeSnapshot) {
	w.t.Helper()
	w.write(fault, func(tx *mvcc.WriteTx) error {
		return snapshot.Put(tx, &storage.SnapshotPutEntry{Snapshots: []*storage.VolumeSnapshot{s}})
	})
}
