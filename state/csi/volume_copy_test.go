package csi_test

import (
	"strings"
	"testing"
	"time"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

// copying adds the volume "source" with changes, and requests "v" as its copy.
func copying(t *testing.T, changes ...func(*structs.CSIVolume)) *fixture {
	t.Helper()
	w := newFixture(t)
	source := aVolume("source", "p")
	source.ExternalID = "ext-source"
	for _, change := range changes {
		change(source)
	}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{source},
		WriteOptions: w.Now(),
	})
	w.MustPut(creating, func(v *structs.CSIVolume) {
		v.CloneID = "source"
		v.CloneSource = csi.CloneSource(w.Store.Read(), v)
	})
	return w
}

func (w *fixture) deleteSource() error {
	w.T.Helper()
	return try(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "source", WriteOptions: w.Now()})
}

func TestVolumeDelete_WaitsForTheCopiesOfTheVolume(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*fixture)
		error  string // "" if the source may go
	}{
		"being created": {func(*fixture) {}, `volume "source" is being copied to volume "v"; wait for it`},
		"being undone":  {func(w *fixture) { w.mustDelete() }, `is being copied to volume "v"`},
		"created":       {func(w *fixture) { w.FinishCall("create", nil, false) }, ""},
		"rejected":      {func(w *fixture) { w.FinishCall("create", denied(), true) }, ""},
		"rejected after a call without an answer": {func(w *fixture) {
			w.NoteVolumeCall("create")
			w.NoteVolumeCall("create")
			w.FinishCall("create", denied(), true)
		}, "delete it first: berth volume delete v"},
		"of an earlier volume with the ID": {func(w *fixture) {
			do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID: "source", Force: true, WriteOptions: w.Now(),
			})
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{aVolume("source", "p")},
				WriteOptions: w.Now(),
			})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := copying(t)
			c.before(w)
			err := w.deleteSource()
			if c.error == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantKind(t, err, structs.KindPrecondition)
			if !strings.Contains(errText(err), c.error) {
				t.Errorf("the error is %v, want %q", err, c.error)
			}
		})
	}
}

func TestVolumeDelete_HidesCopiesOfOtherNamespaces(t *testing.T) {
	w := copying(t)
	w.FinishCall("create", nil, false)
	secret := aVolume("secret", "p")
	secret.Namespace = "other"
	secret.CloneID = "ext-source"
	creating(secret)
	secret.CloneSource = csi.CloneSource(w.Store.Read(), secret)
	w.ApplyNamespace(&cluster.Namespace{Name: "other"})
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{secret},
		WriteOptions: w.Now(),
	})
	err := w.deleteSource()
	wantKind(t, err, structs.KindPrecondition)
	if strings.Contains(errText(err), "secret") || !strings.Contains(errText(err), "another namespace") {
		t.Errorf("the error is %v", err)
	}
}

// The leader checks a marked source again when its row changes.
func TestMarkedVolume_IsCheckedAgainAfterTheEndOfItsCopy(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"created":  func(w *fixture) { w.FinishCall("create", nil, false) },
		"rejected": func(w *fixture) { w.FinishCall("create", denied(), true) },
		"deleted": func(w *fixture) {
			do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID: "v", Force: true, WriteOptions: w.Now(),
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := copying(t, reclaimed(time.Hour))
			err := w.deleteSource()
			if err != nil {
				t.Fatal(err)
			}
			before := csi.Volume(w.Store.Read(), "default", "source")
			end(w)
			if after := csi.Volume(w.Store.Read(), "default", "source"); after.ModifyIndex == before.ModifyIndex {
				t.Error("the row of the source has not changed")
			}
		})
	}
}
