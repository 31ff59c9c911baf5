package csi

import (
	"errors"
	"testing"

	"berth/endpoints/core"
	"berth/internal/mvcc"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/storage"
)

// The caller has the right to list the volumes of one namespace.
func TestExternal_NamesNoSnapshotOfAnotherNamespace(t *testing.T) {
	s := state.New()
	err := s.Write(1, func(tx *mvcc.WriteTx) error {
		for _, ns := range []string{"blue", "green"} {
			schema.Snapshots.Put(tx, &storage.VolumeSnapshot{
				Namespace: ns,
				Name:      "of-" + ns,
				VolumeID:  "volume-" + ns,
				PluginID:  "p",
				Progress: storage.Progress{
					ExternalID: "ext-" + ns,
					State:      storage.SnapshotReady,
				},
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	req := &storage.SnapshotExternalRequest{PluginID: "p"}
	req.Namespace = "blue"
	got := snapshotsOfRows(s.Read(), req).Snapshots
	if len(got) != 2 || got[0].Name != "of-blue" || got[0].SourceVolumeID != "volume-blue" ||
		got[1].ID != "ext-green" || got[1].Name != "" || got[1].SourceVolumeID != "" {
		t.Errorf("got %+v and %+v", got[0], got[1])
	}
}

// Node-local storage has a controller on each node. Any of them may have the snapshot.
func TestDelete_OfASnapshotWithoutARowNeedsEachPlace(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	p := Snapshots{&core.Server{Deps: core.Deps{Store: s}}}
	req := &storage.SnapshotDeleteRequest{PluginID: "p", SnapshotID: "ext"}
	err := p.deleteExternal(t.Context(), req)
	if !errors.Is(err, nodeconn.ErrNoController) {
		t.Errorf("got %v", err)
	}
}

func TestDelete_OfASnapshotWithoutARowWaitsForItsRestore(t *testing.T) {
	s := state.New()
	halfDown(t, s)
	statetest.Write(t, s, func(tx *mvcc.WriteTx) error {
		schema.Volumes.Put(tx, &structs.CSIVolume{
			Namespace: "default", ID: "restored",
			CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", SnapshotID: "ext"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeCreating},
		})
		return nil
	})
	p := Snapshots{&core.Server{Deps: core.Deps{Store: s}}}
	req := &storage.SnapshotDeleteRequest{PluginID: "p", SnapshotID: "ext"}
	err := p.deleteExternal(t.Context(), req)
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
}
