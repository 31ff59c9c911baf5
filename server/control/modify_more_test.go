package control

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/structs"
	"berth/structs/nodecalls"
)

// TestDuty_F7_CreateHasTheMutableParameters: the plugin gets them with the creation, so nothing has to be
// modified afterwards. Until it has answered they stay (C5), and a request says nothing of those applied.
func TestDuty_F7_CreateHasTheMutableParameters(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		wanted := map[string]string{"iops": "100"}
		creating := func(iops string) *structs.CSIVolumeRegisterRequest {
			v := aVolume("v", structs.VolumeCreating)
			v.MutableParameters = map[string]string{"iops": iops}
			v.AppliedParameters = map[string]string{"iops": iops, "forged": "x"}
			return &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
		}
		put(w, fsm.VolumePut, creating("100"))
		w.wantParameters(wanted, nil)
		err := tryPut(w, fsm.VolumePut, creating("200"))
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("a change while the plugin may create the volume: %v", err)
		}

		w.setAnswer(func(c nodeCall) (any, error) {
			if c.method == createMethod {
				return &nodecalls.ClientCSICreateResponse{ExternalID: "ext-v"}, nil
			}
			return nil, nil
		})
		stop := w.runLoop("controllers")
		defer stop()
		synctest.Wait()
		calls := w.called(createMethod)
		if len(calls) != 1 {
			t.Fatalf("called %+v", calls)
		}
		got := calls[0].req.(*nodecalls.ClientCSICreateRequest).MutableParameters
		if !maps.Equal(got, wanted) {
			t.Errorf("the plugin creates with %v", got)
		}
		after(time.Hour)
		w.wantParameters(wanted, wanted)
		if n := len(w.called(modifyMethod)); n != 0 {
			t.Errorf("%d calls modify what was created so", n)
		}
		w.check()
	})
}

// TestDuty_H16_AnOutcomeThatComesTwiceChangesNothing: two leaders may record the outcome of one call.
func TestDuty_H16_AnOutcomeThatComesTwiceChangesNothing(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.modifies(map[string]string{"iops": "100"})
		put(w, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:         "v",
			Op:         opModify,
			Parameters: map[string]string{"iops": "50"},
		})
		put(w, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:  "v",
			Op:  opModify,
			Err: &structs.OperationError{Kind: structs.KindInvalid, Message: "too low"},
		})
		kept := map[string]string{"iops": "100"}
		w.wantParameters(kept, kept)
		if e := w.volume("v").LastError; e != nil {
			t.Errorf("the volume tells of an error: %+v", e)
		}
		w.check()
	})
}
