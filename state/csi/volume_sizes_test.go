package csi_test

import (
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// answered records the outcome of a call that was made with the least size asked, or its final failure.
func (w *fixture) answered(op string, asked int64, failed *structs.OperationError) *structs.CSIVolume {
	w.T.Helper()
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           op,
		Asked:        &structs.CSIAsked{Min: asked},
		ExternalID:   "ext-v",
		Capacity:     asked,
		Err:          failed,
		Final:        failed != nil,
		WriteOptions: w.Now(),
	})
	return w.VolumeRow()
}

// grownTwice returns a volume of 10 bytes for which 22 were requested, and then 24 during the call for 22.
func grownTwice(t *testing.T) *fixture {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin, v.Capacity = 10, 10 })
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 22 })
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 24 })
	return w
}

func (w *fixture) wantSize(pending bool, asked, has int64) {
	w.T.Helper()
	v := w.VolumeRow()
	unsettled := len(collect(csi.UnsettledVolumes(w.Store.Read()))) == 1
	if v.ExpandPending != pending || unsettled != pending ||
		v.RequestedCapacityMin != asked || v.Capacity != has {
		w.T.Fatalf("the volume is %+v (unsettled %v)", v, unsettled)
	}
}

func TestVolumeOutcome_SettlesTheSizeOfItsOwnCall(t *testing.T) {
	w := grownTwice(t)
	w.answered("expand", 22, nil)
	w.wantSize(true, 24, 22)
	w.answered("expand", 24, nil)
	w.wantSize(false, 24, 24)
}

func TestVolumeOutcome_ARejectionTakesBackItsOwnSizeAlone(t *testing.T) {
	w := grownTwice(t)
	if v := w.answered("expand", 22, denied()); v.LastError != nil {
		t.Errorf("the present request has the error of the former one: %+v", v.LastError)
	}
	w.wantSize(true, 24, 10)
	w.answered("expand", 24, denied())
	w.wantSize(false, 10, 10)
}

// The request that was met meanwhile is the one to which a rejection leads back.
func TestVolumeOutcome_ARejectionKeepsTheSizeMetBefore(t *testing.T) {
	w := grownTwice(t)
	w.answered("expand", 22, nil)
	w.answered("expand", 24, denied())
	w.wantSize(false, 22, 22)
}

// A bound above the size is a part of the call, too.
func TestVolumeOutcome_ARejectionOfAFormerBoundIsNoneOfThePresentOne(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin, v.Capacity = 10, 10 })
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin, v.RequestedCapacityMax = 22, 30 })
	w.answered("expand", 22, denied()) // of a call without a bound
	w.wantSize(true, 22, 10)
}

func TestVolumeOutcome_ACreationSettlesTheSizeOfItsOwnCall(t *testing.T) {
	create := func(t *testing.T) *fixture {
		w := newFixture(t)
		w.MustPut(creating, func(v *structs.CSIVolume) { v.RequestedCapacityMin = 22 })
		w.MustPut(creating, func(v *structs.CSIVolume) { v.RequestedCapacityMin = 24 })
		return w
	}
	t.Run("made", func(t *testing.T) {
		w := create(t)
		w.answered("create", 22, nil)
		w.wantSize(true, 24, 22)
		w.answered("expand", 24, denied())
		w.wantSize(false, 22, 22)
	})
	t.Run("rejected", func(t *testing.T) {
		w := create(t)
		v := w.answered("create", 22, denied())
		if v.State != structs.VolumeCreating || v.LastError != nil {
			t.Errorf("the volume is %+v", v)
		}
		if v := w.answered("create", 24, denied()); v.State != structs.VolumeFailed {
			t.Errorf("the volume is %+v", v)
		}
	})
	t.Run("made where nodes expand", func(t *testing.T) {
		w := threeNodes(t, false)
		do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", WriteOptions: w.Now()})
		node := anInstance("p", structs.CSIKindNode, true)
		node.NodeInfo.SupportsExpand = true
		w.Update("n2", node)
		w.MustPut(creating, func(v *structs.CSIVolume) { v.RequestedCapacityMin = 24 })
		if v := w.answered("create", 22, nil); v.ExpandPending || v.NodeExpandBytes != 24 {
			t.Errorf("the volume is %+v", v)
		}
	})
}

// A row that an older version has settled wrongly is not so for ever.
func TestVolume_SmallerThanItsRequestIsPending(t *testing.T) {
	small := func(t *testing.T) *fixture {
		w := grownTwice(t)
		do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID: "v", Op: "expand", Capacity: 22, WriteOptions: w.Now(),
		})
		v := w.VolumeRow()
		if v.ExpandPending || v.Capacity != 22 || v.RequestedCapacityMin != 24 {
			t.Fatalf("the volume is %+v", v)
		}
		if !v.Expands() || len(collect(csi.UnsettledVolumes(w.Store.Read()))) != 1 {
			t.Error("the leader does not see it")
		}
		return w
	}
	t.Run("an outcome", func(t *testing.T) {
		w := small(t)
		w.answered("expand", 24, nil)
		w.wantSize(false, 24, 24)
	})
	t.Run("a rejection", func(t *testing.T) {
		w := small(t)
		w.answered("expand", 24, denied())
		w.wantSize(false, 22, 22)
	})
	t.Run("its file", func(t *testing.T) {
		w := small(t)
		w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 24 })
		w.wantSize(true, 24, 22)
	})
	t.Run("a smaller file", func(t *testing.T) {
		w := small(t)
		w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 22 })
		w.wantSize(false, 22, 22)
	})
	t.Run("not while nodes expand it", func(t *testing.T) {
		w := threeNodes(t, false)
		node := anInstance("p", structs.CSIKindNode, true)
		node.NodeInfo.SupportsExpand = true
		w.Update("n2", node)
		w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 24 })
		v := w.VolumeRow().Copy()
		v.Capacity = 10 // as its plugin has told it
		if v.NodeExpandBytes != 24 || v.Expands() {
			t.Errorf("the volume is %+v", v)
		}
	})
}

func TestVolumeOutcome_AModificationSettlesItsOwnParameters(t *testing.T) {
	w := newFixture(t)
	w.MustPut()
	w.MustPut(func(v *structs.CSIVolume) { v.MutableParameters = map[string]string{"iops": "2"} })
	rejected := func(iops string) *structs.CSIVolume {
		do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:           "v",
			Op:           "modify",
			Parameters:   map[string]string{"iops": iops},
			Err:          denied(),
			Final:        true,
			WriteOptions: w.Now(),
		})
		return w.VolumeRow()
	}
	if v := rejected("1"); !v.Modifies() || v.MutableParameters["iops"] != "2" || v.LastError != nil {
		t.Errorf("the volume is %+v", v)
	}
	if v := rejected("2"); v.Modifies() || v.LastError == nil {
		t.Errorf("the volume is %+v", v)
	}
}
