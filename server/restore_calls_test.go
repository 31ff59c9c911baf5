package server

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/server/control"
	"berth/state/csi"
	"berth/structs"
)

// A controller call is recorded before it is made. A restore at any moment keeps the record.
func TestRestore_KeepsCallsRecordedMeanwhile(t *testing.T) {
	noLeaks(t)
	const volumes = 3000
	var noted atomic.Int32 // volumes with a call on record
	s, err := New(testConfig(t), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	begin := make(chan struct{})
	s.loops = func() []control.Loop {
		return []control.Loop{{Name: "test", Run: func(ctx context.Context) {
			select {
			case <-begin:
			case <-ctx.Done():
				return
			}
			for n := noted.Load(); n < volumes && ctx.Err() == nil; n = noted.Load() {
				note := &structs.CSICallNote{VolumeID: fmt.Sprint("v", n), Call: &structs.CSICall{NodeID: "n1", Time: 1}}
				note.RowIndex = csi.Volume(s.store.Read(), structs.DefaultNamespace, note.VolumeID).CreateIndex
				if _, err := fsm.Propose(ctx, s, fsm.CallNote, note); err != nil {
					return // the call is not made
				}
				noted.Add(1)
			}
		}}}
	}
	r := start(t, s)
	var all []*structs.CSIVolume
	for n := range volumes {
		id := fmt.Sprint("v", n)
		all = append(all, &structs.CSIVolume{
			ID:            id,
			CSIVolumeSpec: structs.CSIVolumeSpec{Name: id, PluginID: "pl", ExternalID: id},
		})
	}
	if _, err := fsm.Propose(t.Context(), s, fsm.VolumePut,
		&structs.CSIVolumeRegisterRequest{Volumes: all}); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := s.SnapshotSave(t.Context(), &archive); err != nil {
		t.Fatal(err)
	}
	close(begin)
	r.until("calls are recorded", func() bool {
		return noted.Load() > 10
	})
	if err := s.SnapshotRestore(t.Context(), &archive, keyring.RestoreKeys{}); err != nil {
		t.Fatal(err)
	}
	forgotten, sure := 0, noted.Load()
	tx := s.store.Read()
	for n := range sure {
		if csi.Volume(tx, structs.DefaultNamespace, fmt.Sprint("v", n)).Call == nil {
			forgotten++
		}
	}
	if forgotten > 0 {
		t.Errorf("%d of %d recorded calls are lost", forgotten, sure)
	}
}
