package state_test

import (
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// noteCall records a call for the volume "v", as the leader does before it makes the call.
func (w *fixture) noteVolumeCall(op string) {
	w.t.Helper()
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "v",
		RowIndex:     w.volumeRow().CreateIndex,
		Call:         &structs.CSICall{NodeID: "n1", Op: op, Time: w.now().Now},
		WriteOptions: w.now(),
	})
}

func denied() *structs.OperationError {
	return &structs.OperationError{Message: "no", Kind: structs.KindDenied, Code: "Unauthenticated"}
}

// The calls before the last one, and whether they may have made the volume.
var callsBefore = map[string]struct {
	calls   func(*fixture)
	mayMake bool
}{
	"none": {func(*fixture) {}, false},
	"without an answer": {func(w *fixture) {
		w.noteVolumeCall("create")
	}, true},
	"without an answer, and the last not delivered": {func(w *fixture) {
		w.noteVolumeCall("create")
		w.noteVolumeCall("create")
		w.finishCall("create", &structs.OperationError{Kind: structs.KindUnavailable}, false)
	}, true},
	"with an internal error": {func(w *fixture) {
		w.noteVolumeCall("create")
		w.finishCall("create", &structs.OperationError{Kind: structs.KindInternal, Code: "Internal"}, false)
	}, true},
	"not delivered": {func(w *fixture) {
		w.noteVolumeCall("create")
		w.finishCall("create", &structs.OperationError{Kind: structs.KindUnavailable}, false)
	}, false},
}

// failedAfter returns a volume whose last creation the plugin has rejected.
func failedAfter(t *testing.T, calls func(*fixture)) *fixture {
	t.Helper()
	w := newFixture(t)
	w.mustPut(creating)
	calls(w)
	w.noteVolumeCall("create")
	v := w.finishCall("create", denied(), true)
	if v.State != structs.VolumeFailed {
		t.Fatalf("the volume is %+v", v)
	}
	return w
}

func TestVolumeDelete_CallsThePluginForAnEarlierCreationWithoutAnAnswer(t *testing.T) {
	for name, c := range callsBefore {
		t.Run(name, func(t *testing.T) {
			w := failedAfter(t, c.calls)
			v := w.mustDelete()
			if called := v != nil && v.State == structs.VolumeDeleting; called != c.mayMake {
				t.Fatalf("the plugin is called: %t; the volume is %+v", called, v)
			}
			if v == nil {
				return
			}

			// A plugin that rejects this call, too, has still not told whether it has the volume.
			w.noteVolumeCall("learn")
			w.finishCall("delete", denied(), true)
			v = w.mustDelete()
			if v == nil || v.State != structs.VolumeDeleting {
				t.Errorf("a second deletion makes it %+v", v)
			}
			v = w.finishCall("create", nil, false)
			if v.Unanswered || v.ExternalID != "made" {
				t.Errorf("the answer makes it %+v", v)
			}
		})
	}
}

func TestVolumeDelete_CallsThePluginAgainAfterAnInternalError(t *testing.T) {
	w := newFixture(t)
	w.mustPut(creating)
	w.mustDelete()
	w.noteVolumeCall("learn")
	w.finishCall("delete", &structs.OperationError{Kind: structs.KindInternal, Code: "Internal"}, false)
	w.noteVolumeCall("learn")
	w.finishCall("delete", denied(), true)
	if v := w.mustDelete(); v == nil || v.State != structs.VolumeDeleting {
		t.Errorf("the volume is %+v", v)
	}
}

func TestVolumePut_KeepsNameAndPluginOfACreationWithoutAnAnswer(t *testing.T) {
	for name, c := range callsBefore {
		for field, change := range map[string]func(*structs.CSIVolume){
			"plugin": func(v *structs.CSIVolume) { v.PluginID = "q" },
			"name":   func(v *structs.CSIVolume) { v.Name = "another" },
		} {
			t.Run(name+"/"+field, func(t *testing.T) {
				w := failedAfter(t, c.calls)
				err := w.tryPut(creating, change)
				if !c.mayMake {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantKind(t, err, structs.KindPrecondition)
				if !strings.Contains(errText(err), "berth volume delete v") {
					t.Errorf("the error names no remedy: %v", err)
				}

				// Other arguments correct the request, and the earlier call is not forgotten.
				v := w.mustPut(creating, func(v *structs.CSIVolume) { v.Parameters = map[string]string{"a": "b"} })
				if v.State != structs.VolumeCreating || !v.Unanswered || csi.NeverCreated(v) {
					t.Errorf("the volume is %+v", v)
				}
			})
		}
	}
}
