package control

import (
	"testing"
	"testing/synctest"
	"time"

	"berth/structs"
	"berth/structs/nodecalls"
)

// slowly answers each expansion after a second. The plugin rejects the given size for good.
func slowly(rejected int64) func(c nodeCall) (any, error) {
	return func(c nodeCall) (any, error) {
		if c.method != expandMethod {
			return nil, nil
		}
		time.Sleep(time.Second)
		size := c.req.(*nodecalls.ClientCSIExpandRequest).Capacity.RequiredBytes
		if size == rejected {
			return nil, structs.Invalidf("no volume has that size")
		}
		return &nodecalls.ClientCSIExpandResponse{Capacity: size}, nil
	}
}

// Two requests for one volume: the second comes while the plugin is called for the first.
func TestExpansion_TwoRequestsAreBothMet(t *testing.T) {
	for name, rejected := range map[string]int64{"accepted": 0, "the first is rejected": 22} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *testEnv) {
				w.addNode("n1", true)
				w.setAnswer(slowly(rejected))
				v := aVolume("v", structs.VolumeReady)
				v.Capacity = 10
				v.RequestedCapacityMin = 10
				w.addVolume(v)
				stop := w.runLoop("controllers")
				defer stop()

				w.grow("v", 22)
				after(time.Second / 2)
				w.grow("v", 24)
				after(10 * time.Second)
				calls := w.called(expandMethod)
				v = w.volume("v")
				if len(calls) != 2 || v.Capacity != 24 || v.RequestedCapacityMin != 24 || v.Expands() ||
					v.LastError != nil {
					t.Errorf("%d calls, the volume is %+v", len(calls), v)
				}
				w.check()
			})
		})
	}
}

// The plugin of a driver that answers no size has met the request: the volume is not expanded for ever.
func TestExpansion_WithoutASizeInTheAnswerIsDone(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.setAnswer(func(nodeCall) (any, error) { return &nodecalls.ClientCSIExpandResponse{}, nil })
		v := aVolume("v", structs.VolumeReady)
		v.Capacity = 10
		w.addVolume(v)
		stop := w.runLoop("controllers")
		defer stop()
		w.grow("v", 22)
		synctest.Wait()
		calls := w.called(expandMethod)
		if v := w.volume("v"); len(calls) != 1 || v.Expands() || v.Capacity != 22 {
			t.Errorf("%d calls, the volume is %+v", len(calls), v)
		}
	})
}
