package csi_test

import (
	"testing"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// fileOf puts the volume "v" again, with the size of its file.
func (w *fixture) fileOf(size int64) error {
	w.T.Helper()
	return w.TryPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = size })
}

// grow makes the volume "v" grow by its own rule.
func (w *fixture) grow(to int64) {
	w.T.Helper()
	do(w, csi.VolumeGrow, &storage.VolumeGrowRequest{
		ID: "v", RowIndex: w.VolumeRow().ModifyIndex, To: to, WriteOptions: w.Now(),
	})
	if v := w.VolumeRow(); v.RequestedCapacityMin != to || !v.ExpandPending {
		w.T.Fatalf("the volume is %+v", v)
	}
}

func growing(capacity int64) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) {
		v.RequestedCapacityMin = 100
		v.Capacity = capacity
		v.Grow = &structs.CSIGrow{At: 80, By: 20, Max: 1000}
	}
}

func TestVolumeGrow_ARejectionKeepsTheFileOfTheVolume(t *testing.T) {
	for name, c := range map[string]struct{ before, after int64 }{
		"of its size": {100, 120},
		"rounded up":  {100, 128},
		"unknown":     {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.MustPut(growing(c.before))
			w.grow(120)
			do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
				ID: "v", Op: "expand", Capacity: c.after, WriteOptions: w.Now(),
			})
			w.grow(144)
			for range 2 { // the rejection of a size, and of the next attempt
				v := w.FinishCall("expand", denied(), true)
				if v.RequestedCapacityMin != 120 || v.ExpandPending {
					t.Fatalf("the volume is %+v", v)
				}
				err := w.fileOf(100)
				if err != nil || w.VolumeRow().RequestedCapacityMin != 120 {
					t.Fatalf("%v: the volume is %+v", err, w.VolumeRow())
				}
				w.grow(144)
			}
		})
	}
}

func TestVolumeGrow_AFirstRejectionIsNoGrowth(t *testing.T) {
	w := newFixture(t)
	w.MustPut(growing(100))
	w.grow(120)
	w.FinishCall("expand", denied(), true)
	wantKind(t, w.fileOf(80), structs.KindConflict)
}

func TestVolumeOutcome_ARejectedExpansionRestoresTheRequest(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 })
	for _, size := range []int64{200, 150, 300} { // each replaces the one before, which is pending
		err := w.fileOf(size)
		if err != nil {
			t.Fatal(err)
		}
	}
	v := w.FinishCall("expand", denied(), true)
	if v.RequestedCapacityMin != 100 || v.FormerCapacityMin != 0 {
		t.Errorf("the volume is %+v", v)
	}
	err := w.fileOf(200)
	if err != nil || !w.VolumeRow().ExpandPending {
		t.Errorf("%v: the volume is %+v", err, w.VolumeRow())
	}
}
