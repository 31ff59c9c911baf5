package control

import (
	"strings"
	"testing"
	"time"

	"berth/server/control/volumes"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/quota"
	"berth/structs/storage"
)

const usageMethod = "ClientCSI.VolumeUsage"

// growingVolume adds a volume of 1 GiB on node n1 that grows at 80 % by 20 %, up to 1.3 GiB.
func (w *testEnv) growingVolume(edit func(*structs.CSIVolume)) {
	w.t.Helper()
	w.addNode("n1", true)
	v := aVolume("v", structs.VolumeReady)
	v.RequestedCapacityMin = 1 << 30
	v.Capacity = 1 << 30
	v.Grow = &structs.CSIGrow{At: 80, By: 20, Max: 13 << 30 / 10}
	if edit != nil {
		edit(v)
	}
	w.addVolume(v)
	w.addClaim("v", "a1", "n1")
}

// used makes the nodes tell the use of the volume, in percent of a file system that is a little smaller than
// the volume has been at the time of begin.
func (w *testEnv) used(percent int64) {
	w.usage(func() *storage.UsageAmount {
		total := w.volume("v").Capacity / 100 * 95
		return &storage.UsageAmount{
			Total:     total,
			Used:      total / 100 * percent,
			Available: total - total/100*percent,
		}
	})
}

// usage makes the nodes tell the use of the volume as measured now, and makes the plugin expand volumes.
func (w *testEnv) usage(amount func() *storage.UsageAmount) {
	w.setAnswer(func(c nodeCall) (any, error) {
		switch c.method {
		case usageMethod:
			return &storage.NodeUsageResponse{Usages: []*storage.VolumeUsage{{
				Namespace: "default",
				VolumeID:  "v",
				Bytes:     amount(),
				Time:      time.Now().UnixNano(),
			}}}, nil
		case expandMethod:
			return expanded(c), nil
		}
		return nil, nil
	})
}

func TestGrowth_StopsAtTheLargestSize(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.growingVolume(nil)
		w.used(85)
		defer w.runLoop("controllers")()
		defer w.runLoop("growth")()

		after(volumes.GrowthInterval)
		v := w.volume("v")
		if v.Capacity != 1229<<20 || v.Grown == nil || v.Grown.From != 1<<30 || v.Grown.To != 1229<<20 {
			t.Fatalf("capacity %d, growth %+v", v.Capacity, v.Grown)
		}

		// It is measured again before it grows again.
		after(volumes.GrowthInterval)
		if v := w.volume("v"); v.Capacity != 1229<<20 {
			t.Errorf("it grew again at once, to %d", v.Capacity)
		}

		after(10 * time.Minute)
		v = w.volume("v")
		if v.Capacity != 13<<30/10 || !strings.Contains(v.Grown.Fault, "largest size") {
			t.Errorf("capacity %d, growth %+v", v.Capacity, v.Grown)
		}
		before := w.log.Len()
		after(time.Hour)
		if n := w.log.Len(); n != before {
			t.Errorf("%d log entries although nothing changed", n-before)
		}
		w.check()
	})
}

func TestGrowth_LeavesWhatNeedNotGrow(t *testing.T) {
	for name, test := range map[string]struct {
		edit    func(*structs.CSIVolume)
		percent int64
		varies  bool
	}{
		"less used than the rule says": {percent: 79},
		"a use that changes":           {percent: 79, varies: true},
		"no rule":                      {edit: func(v *structs.CSIVolume) { v.Grow = nil }, percent: 99},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.growingVolume(test.edit)
				w.used(test.percent)
				if test.varies {
					w.usage(func() *storage.UsageAmount {
						percent := 10 + time.Now().Unix()/60*7%70 // it differs in each round
						return &storage.UsageAmount{
							Total:     100 << 20,
							Used:      percent << 20,
							Available: (100 - percent) << 20,
						}
					})
				}
				before := w.log.Len()
				defer w.runLoop("growth")()
				after(time.Hour)
				if n := w.log.Len(); n != before {
					t.Errorf("%d log entries: %+v", n-before, w.volume("v"))
				}
			})
		})
	}
}

func TestGrowth_RecordsTheReasonThatHindersIt(t *testing.T) {
	for reason, hinder := range map[string]func(w *testEnv){
		"does not expand volumes": func(w *testEnv) {
			w.growingVolume(nil)
			w.addNode("n1", false)
		},
		"the use of the volume is not known": func(w *testEnv) {
			w.growingVolume(nil)
			w.usage(func() *storage.UsageAmount {
				return &storage.UsageAmount{Total: 1 << 40, Used: 9 << 36, Available: 1 << 30}
			})
		},
		"quota team": func(w *testEnv) {
			w.growingVolume(nil)
			w.bounded(quota.Bounds{Storage: &quota.StorageBound{VolumeBytes: 1 << 30}})
		},
		"raise max in grow, or capacity_max": func(w *testEnv) {
			w.growingVolume(func(v *structs.CSIVolume) { v.RequestedCapacityMax = 1 << 30 })
		},
	} {
		t.Run(reason, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.used(85)
				hinder(w)
				defer w.runLoop("growth")()
				after(volumes.GrowthInterval)
				v := w.volume("v")
				if v.Grown == nil || !strings.Contains(v.Grown.Fault, reason) || v.RequestedCapacityMin != 1<<30 {
					t.Fatalf("growth %+v, %d bytes", v.Grown, v.RequestedCapacityMin)
				}

				before := w.log.Len()
				after(time.Hour)
				if n := w.log.Len(); n != before {
					t.Errorf("%d log entries although nothing changed", n-before)
				}

				w.used(10)
				after(volumes.GrowthInterval)
				if f := w.volume("v").Grown.Fault; f != "" {
					t.Errorf("the reason stays after the volume was emptied: %s", f)
				}
			})
		})
	}
}

// An old measurement may be that of the smaller volume.
func TestGrowth_WaitsForANewMeasurement(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.growingVolume(func(v *structs.CSIVolume) { v.Grow.Max = 1 << 40 })
		measured := time.Now().Add(volumes.GrowthInterval / 2).UnixNano()
		w.setAnswer(func(c nodeCall) (any, error) {
			switch c.method {
			case usageMethod:
				return &storage.NodeUsageResponse{Usages: []*storage.VolumeUsage{{
					Namespace: "default",
					VolumeID:  "v",
					Bytes:     &storage.UsageAmount{Total: 100, Used: 90, Available: 10},
					Time:      measured,
				}}}, nil
			case expandMethod:
				return expanded(c), nil
			}
			return nil, nil
		})
		defer w.runLoop("controllers")()
		defer w.runLoop("growth")()
		after(time.Hour)
		if v := w.volume("v"); v.Capacity != 1229<<20 {
			t.Errorf("one measurement made it grow to %d", v.Capacity)
		}
	})
}

// The file of a volume that has grown still describes it.
func TestGrowth_AllowsTheFormerFileOfTheVolume(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.growingVolume(nil)
		w.used(85)
		defer w.runLoop("controllers")()
		stop := w.runLoop("growth")
		after(volumes.GrowthInterval)
		stop()

		again := aVolume("v", structs.VolumeReady)
		again.RequestedCapacityMin = 1 << 30
		w.addVolume(again)
		v := csi.Volume(w.Store.Read(), "default", "v")
		if v.RequestedCapacityMin != 1229<<20 || v.Grow == nil || v.Grown == nil || v.ExpandPending {
			t.Errorf("got %+v", v)
		}
	})
}

// expanded is the answer of a plugin that expands a volume to the requested size.
func expanded(c nodeCall) *nodecalls.ClientCSIExpandResponse {
	req := c.req.(*nodecalls.ClientCSIExpandRequest)
	return &nodecalls.ClientCSIExpandResponse{Capacity: req.Capacity.RequiredBytes}
}
