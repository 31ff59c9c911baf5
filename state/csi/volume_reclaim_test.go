package csi_test

import (
	"strings"
	"testing"
	"time"

	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// reclaimed gives a volume the rule delete with a delay.
func reclaimed(after time.Duration) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) {
		v.Reclaim = storage.ReclaimDelete
		v.DeleteAfter = new(after)
	}
}

func (w *fixture) tryDelete(how ...func(*structs.CSIVolumeDeleteRequest)) error {
	w.T.Helper()
	req := &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()}
	for _, change := range how {
		change(req)
	}
	return try(w, csi.VolumeDelete, req)
}

func (w *fixture) mustDelete(how ...func(*structs.CSIVolumeDeleteRequest)) *structs.CSIVolume {
	w.T.Helper()
	if err := w.tryDelete(how...); err != nil {
		w.T.Fatal(err)
	}
	return w.VolumeRow()
}

func (w *fixture) undelete() error {
	w.T.Helper()
	return try(w, csi.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "v", WriteOptions: w.Now()})
}

// reclaimAt begins the deletion of a row as the loop does at a time.
func (w *fixture) reclaimAt(row *structs.CSIVolume, now int64) *structs.CSIVolume {
	w.T.Helper()
	do(w, csi.VolumeReclaim, &storage.VolumeReclaimRequest{
		ID:           row.ID,
		RowIndex:     row.CreateIndex,
		DeleteAt:     row.DeleteAt,
		WriteOptions: structs.WriteOptions{Now: now},
	})
	return w.VolumeRow()
}

func atOnce(r *structs.CSIVolumeDeleteRequest) { r.AtOnce = true }

func TestVolumeDelete_MarksVolumesThatAreDeletedLater(t *testing.T) {
	const state, marked = structs.VolumeDeleting, "marked"
	for name, c := range map[string]struct {
		put  []func(*structs.CSIVolume)
		how  []func(*structs.CSIVolumeDeleteRequest)
		want string // "marked" or the state
		left time.Duration
	}{
		"without a rule": {want: state},
		"retain": {
			put:  []func(*structs.CSIVolume){func(v *structs.CSIVolume) { v.Reclaim = storage.ReclaimRetain }},
			want: state,
		},
		"delete": {put: []func(*structs.CSIVolume){reclaimed(time.Hour)}, want: marked, left: time.Hour},
		"delete with its default": {
			put:  []func(*structs.CSIVolume){func(v *structs.CSIVolume) { v.Reclaim = storage.ReclaimDelete }},
			want: marked,
			left: storage.DefaultDeleteAfter,
		},
		"delete without a delay": {put: []func(*structs.CSIVolume){reclaimed(0)}, want: state},
		"delete at once": {put: []func(*structs.CSIVolume){reclaimed(time.Hour)},
			how: []func(*structs.CSIVolumeDeleteRequest){atOnce}, want: state},
		"not made yet": {put: []func(*structs.CSIVolume){reclaimed(time.Hour), creating}, want: state},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.Node("n1", anInstance("p", structs.CSIKindNode, true))
			w.MustPut(c.put...)
			at := w.Now().Now
			v := w.mustDelete(c.how...)
			if v.Marked() != (c.want == marked) || !v.Marked() && (v.State != c.want || v.DeleteAt != 0) {
				t.Fatalf("the volume is %s, to be deleted at %d; want %s", v.State, v.DeleteAt, c.want)
			}
			if v.Marked() && (v.DeleteAt != at+int64(c.left) || v.DeleteCause != storage.DeletedByOperator) {
				t.Errorf("it is to be deleted after %s because of %q; want %s",
					time.Duration(v.DeleteAt-at), v.DeleteCause, c.left)
			}
			if again := w.mustDelete(); v.Marked() && again.DeleteAt != v.DeleteAt {
				t.Errorf("a second request has moved the time from %d to %d", v.DeleteAt, again.DeleteAt)
			}
		})
	}
}

func TestVolumeDelete_KeepsSecretsOfALaterDeletion(t *testing.T) {
	w := newFixture(t)
	w.MustPut(reclaimed(time.Hour))
	withSecrets := func(r *structs.CSIVolumeDeleteRequest) { r.Secrets = structs.Secrets{"k": "v"} }
	err := w.tryDelete(withSecrets)
	wantKind(t, err, structs.KindPrecondition)
	if err == nil || !strings.Contains(err.Error(), "-now") {
		t.Errorf("the error names no remedy: %v", err)
	}
	if v := w.mustDelete(withSecrets, atOnce); v.State != structs.VolumeDeleting || v.Secrets["k"] != "v" {
		t.Errorf("the volume is %s with the secrets %d", v.State, len(v.Secrets))
	}
}

func TestVolumeDelete_MarksNoVolumeThatIsWanted(t *testing.T) {
	w := threeNodes(t, true)
	w.MustPut(reclaimed(time.Hour))
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Claim(aClaim("v", "a2", wr, snw))
	wantKind(t, w.tryDelete(), structs.KindPrecondition)

	w.Stop("a1", "")
	err := w.tryDelete()
	wantKind(t, err, structs.KindPrecondition)
	if err == nil || !strings.Contains(err.Error(), "allocation a2") || strings.Contains(err.Error(), "a1") {
		t.Errorf("got %v, want the allocation that waits", err)
	}

	w.Stop("a2", "")
	if v := w.mustDelete(); !v.Marked() {
		t.Errorf("the volume is not marked though its last user is to stop: %+v", v)
	}
}

func TestMarkedVolume_GrantsNoClaimUntilItIsKept(t *testing.T) {
	w := threeNodesWithDB(t)
	w.MustPut(reclaimed(time.Hour))
	w.mustDelete()

	const remedy = "berth volume undelete v"
	err := w.TryClaim(aClaim("v", "a1", wr, snw))
	wantKind(t, err, structs.KindPrecondition)
	ok, why := csi.Claimable(w.Store.Read(), aClaim("v", "", wr, snw), nil)
	for what, text := range map[string]string{
		"the rejection of a claim": errText(err),
		"the plan":                 why,
		"the volume":               csi.Unschedulable(w.Store.Read(), w.VolumeRow()),
		"another registration":     errText(w.TryPut()),
	} {
		if !strings.Contains(text, remedy) || !strings.Contains(text, storage.DeletedByOperator) {
			t.Errorf("%s says %q, want the cause and %q", what, text, remedy)
		}
	}
	if ok {
		t.Error("a marked volume is claimable")
	}

	if err := w.undelete(); err != nil {
		t.Fatal(err)
	}
	if v := w.VolumeRow(); v.DeleteAt != 0 || v.DeleteCause != "" || v.Reclaim != storage.ReclaimDelete {
		t.Errorf("the volume that stays is %+v", v)
	}
	w.Claim(aClaim("v", "a1", wr, snw))
	w.WantClaims("v", map[string]string{"a1": granted})
	if err := w.undelete(); err != nil {
		t.Errorf("a volume that stays cannot be kept again: %v", err)
	}
	wantKind(t, try(w, csi.VolumeUndelete, &storage.VolumeUndeleteRequest{ID: "x"}), structs.KindNotFound)
}

func TestVolumeUndelete_KeepsAVolumeWhosePluginWasNotCalled(t *testing.T) {
	noController := &structs.OperationError{Kind: structs.KindUnavailable, Code: "NoController"}
	for name, c := range map[string]struct {
		since func(*fixture)
		kept  bool
	}{
		"at its time": {func(*fixture) {}, true},
		"without a controller": {func(w *fixture) {
			w.FinishCall("delete", noController, false)
			w.FinishCall("delete", noController, false)
		}, true},
		// Its outcome is not known: the volume may change.
		"after the record of another call": {func(w *fixture) { w.NoteVolumeCall("expand") }, false},
		"after the record of a call":       {func(w *fixture) { w.NoteVolumeCall("delete") }, false},
		"after a failed call, and without a controller": {func(w *fixture) {
			w.NoteVolumeCall("delete")
			w.FinishCall("delete", &structs.OperationError{Kind: structs.KindInternal}, false)
			w.FinishCall("delete", noController, false)
		}, false},
		"after a failed call of an older version": {func(w *fixture) {
			w.FinishCall("delete", &structs.OperationError{Kind: structs.KindInternal}, false)
		}, false},
		"after a rejected deletion": {func(w *fixture) {
			w.NoteVolumeCall("delete")
			v := w.FinishCall("delete", denied(), true)
			w.reclaimAt(v, v.DeleteAt)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.MustPut(reclaimed(time.Hour))
			v := w.mustDelete()
			w.reclaimAt(v, v.DeleteAt)
			c.since(w)
			v = w.VolumeRow()
			if v.State != structs.VolumeDeleting {
				t.Fatalf("the volume is %+v", v)
			}

			err := w.undelete()
			if !c.kept {
				wantKind(t, err, structs.KindPrecondition)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			v = w.VolumeRow()
			if v.State != structs.VolumeReady || v.Marked() || v.LastError != nil {
				t.Errorf("the volume is %+v", v)
			}

			// The leader may have read the row before: its call comes too late.
			note := &structs.CSICallNote{
				VolumeID:     "v",
				RowIndex:     v.CreateIndex,
				Call:         &structs.CSICall{NodeID: "n1", Op: "delete"},
				WriteOptions: w.Now(),
			}
			wantKind(t, try(w, csi.CallNote, note), structs.KindConflict)
		})
	}
}

func TestVolumeUndelete_RestoresTheSecretsOfTheVolume(t *testing.T) {
	w := newFixture(t)
	own := w.MustPut().Secrets["k"]
	w.mustDelete(func(r *structs.CSIVolumeDeleteRequest) { r.Secrets = structs.Secrets{"k": "of the deletion"} })
	err := w.undelete()
	if v := w.VolumeRow(); err != nil || v.Secrets["k"] != own || v.Deletion != nil {
		t.Errorf("%v: the volume is %+v", err, v)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestVolumeReclaim_BeginsAtItsTimeAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(row *structs.CSIVolume)
		early  time.Duration
		begins bool
	}{
		"at its time":                   {begins: true},
		"before":                        {early: 1},
		"of another row":                {change: func(v *structs.CSIVolume) { v.CreateIndex++ }},
		"of a mark that was taken back": {change: func(v *structs.CSIVolume) { v.DeleteAt-- }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.MustPut(reclaimed(time.Hour))
			row := w.mustDelete().Copy()
			now := row.DeleteAt - int64(c.early)
			if c.change != nil {
				c.change(row)
			}
			v := w.reclaimAt(row, now)
			if (v.State == structs.VolumeDeleting) != c.begins {
				t.Fatalf("the volume is %s, want its deletion begun: %t", v.State, c.begins)
			}
			if c.begins {
				w.NoteVolumeCall("delete")
				wantKind(t, w.undelete(), structs.KindPrecondition)
				if w.FinishCall("delete", nil, false) != nil {
					t.Error("the deletion has left the row")
				}
			}
		})
	}
}

func TestVolumeReclaim_WaitsForTheLastClaimAndAttachment(t *testing.T) {
	w := threeNodes(t, true)
	w.MustPut(reclaimed(time.Hour))
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	w.Client("n1", "a1", structs.AllocComplete)
	row := w.mustDelete()
	late := row.DeleteAt + int64(time.Hour)

	changed := func(what string, leave func(), moved bool) {
		t.Helper()
		before := w.VolumeRow().ModifyIndex
		leave()
		if got := w.VolumeRow().ModifyIndex != before; got != moved {
			t.Errorf("%s: the row has changed: %t, want %t", what, got, moved)
		}
	}
	waits := func(what string) {
		t.Helper()
		if v := w.reclaimAt(w.VolumeRow(), late); v.State != structs.VolumeReady {
			t.Fatalf("%s: the volume is %s", what, v.State)
		}
	}
	waits("a claim is held")
	changed("the claim ends", func() { w.Release("v", "a1") }, false)
	waits("it is being detached")
	changed("it is detached", func() { w.Outcome("v", "n1", "detach", nil) }, true)
	if v := w.reclaimAt(w.VolumeRow(), late); v.State != structs.VolumeDeleting {
		t.Errorf("the volume is %s, and nobody has it", v.State)
	}

	// A plugin that attaches nothing: the end of the claim is the last.
	w = threeNodes(t, false)
	w.MustPut(reclaimed(time.Hour))
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Client("n1", "a1", structs.AllocComplete)
	w.mustDelete()
	changed("the last claim ends", func() { w.Release("v", "a1") }, true)
}

func TestVolumeOutcome_MarksAVolumeAgainThatItsPluginDoesNotDelete(t *testing.T) {
	rejected := &structs.OperationError{Message: "no", Kind: structs.KindDenied}
	w := newFixture(t)
	w.MustPut(reclaimed(time.Hour))
	row := w.mustDelete()
	w.reclaimAt(row, row.DeleteAt)
	at := w.Now().Now
	v := w.FinishCall("delete", rejected, true)
	if !v.Marked() || v.DeleteAt != at+int64(storage.DeleteAgain) || v.LastError.RetryTime != v.DeleteAt {
		t.Errorf("the volume is %s, to be deleted at %d, with the error %+v", v.State, v.DeleteAt, v.LastError)
	}

	// A person has asked for this deletion, and decides.
	w.mustDelete(atOnce)
	v = w.FinishCall("delete", rejected, true)
	if v.State != structs.VolumeReady || v.DeleteAt != 0 {
		t.Errorf("the volume is %s, to be deleted at %d; want one that stays", v.State, v.DeleteAt)
	}
}

func TestRecover_KeepsMarkedVolumes(t *testing.T) {
	w := threeNodes(t, false)
	w.MustPut(reclaimed(time.Hour))
	w.mustDelete()
	v := csi.Volume(w.restored(w.Save()).Store.Read(), "default", "v")
	if v.DeleteAt != 0 || v.State != structs.VolumeReady || v.LastError == nil {
		t.Errorf("the volume is %s, to be deleted at %d, with the error %+v", v.State, v.DeleteAt, v.LastError)
	}
}
