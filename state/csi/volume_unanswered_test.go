package csi_test

import (
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// The calls before the last one, and whether they may have made the volume.
var callsBefore = map[string]struct {
	calls   func(*fixture)
	mayMake bool
}{
	"none": {func(*fixture) {}, false},
	"without an answer": {func(w *fixture) {
		w.NoteVolumeCall("create")
	}, true},
	"without an answer, and the last not delivered": {func(w *fixture) {
		w.NoteVolumeCall("create")
		w.NoteVolumeCall("create")
		w.FinishCall("create", &structs.OperationError{Kind: structs.KindUnavailable}, false)
	}, true},
	"with an internal error": {func(w *fixture) {
		w.NoteVolumeCall("create")
		w.FinishCall("create", &structs.OperationError{Kind: structs.KindInternal, Code: "Internal"}, false)
	}, true},
	"not delivered": {func(w *fixture) {
		w.NoteVolumeCall("create")
		w.FinishCall("create", &structs.OperationError{Kind: structs.KindUnavailable}, false)
	}, false},
}

// failedAfter returns a volume whose last creation the plugin has rejected.
func failedAfter(t *testing.T, calls func(*fixture)) *fixture {
	t.Helper()
	w := newFixture(t)
	w.MustPut(creating)
	calls(w)
	w.NoteVolumeCall("create")
	v := w.FinishCall("create", denied(), true)
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
			w.NoteVolumeCall("learn")
			w.FinishCall("delete", denied(), true)
			v = w.mustDelete()
			if v == nil || v.State != structs.VolumeDeleting {
				t.Errorf("a second deletion makes it %+v", v)
			}
			v = w.FinishCall("create", nil, false)
			if v.Unanswered || v.ExternalID != "made" {
				t.Errorf("the answer makes it %+v", v)
			}
		})
	}
}

func TestVolumeDelete_CallsThePluginAgainAfterAnInternalError(t *testing.T) {
	w := newFixture(t)
	w.MustPut(creating)
	w.mustDelete()
	w.NoteVolumeCall("learn")
	w.FinishCall("delete", &structs.OperationError{Kind: structs.KindInternal, Code: "Internal"}, false)
	w.NoteVolumeCall("learn")
	w.FinishCall("delete", denied(), true)
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
				err := w.TryPut(creating, change)
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
				v := w.MustPut(creating, func(v *structs.CSIVolume) { v.Parameters = map[string]string{"a": "b"} })
				if v.State != structs.VolumeCreating || !v.Unanswered || csi.NeverCreated(v) {
					t.Errorf("the volume is %+v", v)
				}
			})
		}
	}
}
