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

const modifyMethod = "ClientCSI.ControllerModifyVolume"

// modifies changes the mutable parameters of the volume v, as volume create does.
func (w *testEnv) modifies(parameters map[string]string) {
	w.t.Helper()
	v := aVolume("v", structs.VolumeReady)
	v.MutableParameters = parameters
	w.addVolume(v)
}

// answerModify answers the calls that modify with the error of a function.
func (w *testEnv) answerModify(fails func() error) {
	w.setAnswer(func(c nodeCall) (any, error) {
		if c.method == modifyMethod {
			return nil, fails()
		}
		return nil, nil
	})
}

func (w *testEnv) wantParameters(wanted, applied map[string]string) {
	w.t.Helper()
	v := w.volume("v")
	if !maps.Equal(v.MutableParameters, wanted) || !maps.Equal(v.AppliedParameters, applied) {
		w.t.Errorf("wants %v, has %v; want %v and %v", v.MutableParameters, v.AppliedParameters, wanted, applied)
	}
}

func TestDuty_H14_ModifySendsTheKeysThatChange(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.answerModify(func() error { return nil })
		w.modifies(map[string]string{"iops": "100", "tier": "a"})
		first := map[string]string{"iops": "100", "tier": "a"}
		w.wantParameters(first, first)
		stop := w.runLoop("controllers")
		defer stop()
		w.modifies(map[string]string{"iops": "200"})
		synctest.Wait()
		calls := w.called(modifyMethod)
		if len(calls) != 1 {
			t.Fatalf("called %+v", calls)
		}
		req := calls[0].req.(*nodecalls.ClientCSIModifyRequest)
		if !maps.Equal(req.MutableParameters, map[string]string{"iops": "200"}) || req.ExternalID != "ext-v" ||
			req.Secrets["k"] != "v" {
			t.Errorf("got request %+v", req)
		}
		now := map[string]string{"iops": "200", "tier": "a"}
		w.wantParameters(now, now)
		after(time.Hour)
		if n := len(w.called(modifyMethod)); n != 1 {
			t.Errorf("%d calls: a finished call was repeated", n)
		}
		w.check()
	})
}

func TestDuty_H15_RejectedParametersAreNotKept(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		w.answerModify(func() error { return structs.Invalidf("iops of 1 is too low") })
		w.modifies(map[string]string{"iops": "100"})
		stop := w.runLoop("controllers")
		defer stop()
		w.modifies(map[string]string{"iops": "1"})
		after(time.Hour)
		kept := map[string]string{"iops": "100"}
		w.wantParameters(kept, kept)
		v := w.volume("v")
		if len(w.called(modifyMethod)) != 1 || v.LastError == nil || v.LastError.Kind != structs.KindInvalid {
			t.Errorf("%d calls, last error %+v", len(w.called(modifyMethod)), v.LastError)
		}
		w.check()
	})
}

// A plugin that does not know the volume may know it later. A new leader repeats a call whose outcome was not
// recorded, with the same arguments.
func TestDuty_H16_C5_ModifyIsRepeatedUntilItHasAnOutcome(t *testing.T) {
	virtual(t, func(t *testing.T, w *testEnv) {
		w.addNode("n1", true)
		calls := 0
		w.answerModify(func() error {
			calls++
			switch calls {
			case 1:
				return &structs.Error{Kind: structs.KindNotFound, Code: "NotFound", Text: "no volume"}
			case 2:
				w.log.Fail(structs.Timeoutf("leadership lost")) // the call is made, its outcome not recorded
			}
			return nil
		})
		w.modifies(map[string]string{"iops": "100"})
		stop := w.runLoop("controllers")
		w.modifies(map[string]string{"iops": "200"})
		after(time.Hour)
		stop()
		w.log.Fail(nil)

		// The arguments stay while the plugin may still work.
		v := aVolume("v", structs.VolumeReady)
		v.MutableParameters = map[string]string{"iops": "300"}
		err := tryPut(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("a change during the call: %v", err)
		}

		stop = w.runLoop("controllers")
		defer stop()
		after(time.Hour)
		for _, c := range w.called(modifyMethod) {
			got := c.req.(*nodecalls.ClientCSIModifyRequest).MutableParameters
			if !maps.Equal(got, map[string]string{"iops": "200"}) {
				t.Errorf("sent %v", got)
			}
		}
		applied := map[string]string{"iops": "200"}
		w.wantParameters(applied, applied)
		if e := w.volume("v").LastError; calls < 3 || e != nil {
			t.Errorf("%d calls, and the volume still tells of %+v", calls, e)
		}
		w.check()
	})
}
