package state_test

import (
	"reflect"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func (w *fixture) deregister(id string) {
	w.T.Helper()
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: id, WriteOptions: w.Now()})
}

func (w *fixture) register(id, external string) {
	w.T.Helper()
	v := aVolume(id, "p")
	v.ExternalID = external
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
}

// renamedAndAttached registers the volume under another name and attaches it.
func renamedAndAttached(w *fixture, to string) {
	w.deregister("v")
	w.register("w", "ext-v")
	w.Claim(aClaim("w", "b"+to[1:], wr, snw))
	w.Outcome("w", to, "attach", nil)
}

func TestRecover_DetachesAVolumeUnderTheNameThatItHasNow(t *testing.T) {
	w := threeNodes(t, true)
	saved := w.Save()
	renamedAndAttached(w, "n1")
	for _, alloc := range []string{"a1", "a2"} { // on the same node, and on another one
		back := w.restored(saved)
		if got := back.Attachment("w", "n1"); got != "" {
			t.Errorf("the attachment under the former name is %q", got)
		}
		back.SetAccounted("n1", "n2", "n3")
		back.Claim(aClaim("v", alloc, wr, snw))
		back.WantReason("v", alloc, "is being detached from node name-n1")
		back.Outcome("v", "n1", "detach", nil)
		back.WantClaims("v", map[string]string{alloc: granted})
	}
}

// The claim of the restored state keeps the volume attached under any name that it had meanwhile.
func TestRecover_DoesNotDetachUnderAClaimOfAnotherName(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	saved := w.Save()
	w.Release("v", "a1")
	w.Outcome("v", "n1", "detach", nil)
	renamedAndAttached(w, "n1")
	w.Release("w", "b1")
	call := &structs.CSICall{
		NodeID: "n3",
		Op:     "detach",
		Time:   1,
	}
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "w",
		NodeID:       "n1",
		Call:         call,
		WriteOptions: w.Now(),
		RowIndex:     csi.Attachment(w.Store.Read(), "default", "w", "n1").CreateIndex,
	})
	back := w.restored(saved)
	a := csi.Attachment(back.Store.Read(), "default", "v", "n1")
	if a.State != structs.AttachmentAttaching ||
		!reflect.DeepEqual(a.Call, call) {
		t.Errorf("the attachment is %+v", a)
	}
	held := &structs.NodeInventory{Held: []structs.CSIHeldClaim{{
		PluginID:         "p",
		ExternalVolumeID: "ext-v",
		ExternalNodeID:   "external",
		CSIClaimKey: structs.CSIClaimKey{
			Namespace: "default",
			VolumeID:  "w",
			AllocID:   "b1",
		},
	}}}
	found := state.Unrecorded(back.Store.Read(), "n1", held)
	if back.Attachment("w", "n1") != "" || len(found) != 0 {
		t.Errorf("an attachment with a claim is to be detached: %+v", found)
	}
}

// The name was given to another volume, which stays attached until it is detached.
func TestRecover_DetachesAVolumeWhoseNameWasReused(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	saved := w.Save()
	w.Release("v", "a1")
	w.Outcome("v", "n1", "detach", nil)
	w.deregister("v")
	w.register("v", "ext-2")
	w.Claim(aClaim("v", "b1", wr, snw))
	back := w.restored(saved)
	v := csi.Attachment(back.Store.Read(), "default", "v", "n1")
	other := csi.AttachedAs(back.Store.Read(), "p", "ext-2")
	if v.ExternalVolumeID != "ext-v" || other == nil || !other.Found ||
		other.NodeID != "n1" {
		t.Errorf("the attachments are %+v and %+v", v, other)
	}
	wantKind(t, try(back, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		WriteOptions: back.Now(),
		Volumes: []*structs.CSIVolume{{
			ID:            "w",
			CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-2"},
		}},
	}), structs.KindPrecondition)
}

// The volume was created after the snapshot and still has its name.
func TestRecover_KeepsTheNameOfAVolumeThatIsToBeCreated(t *testing.T) {
	w := threeNodes(t, true)
	unmade := aVolume("u", "p")
	unmade.ExternalID, unmade.State = "", structs.VolumeCreating
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{unmade},
		WriteOptions: w.Now(),
	})
	saved := w.Save()
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "u",
		Op:           "create",
		ExternalID:   "ext-u",
		WriteOptions: w.Now(),
	})
	w.Claim(aClaim("u", "a1", wr, snw))
	a := csi.Attachment(w.restored(saved).Store.Read(), "default", "u", "n1")
	if a == nil || !a.Found {
		t.Errorf("the attachment is %+v", a)
	}
}

// The plugin began to attach after the snapshot, in which the claim was granted without an attachment.
func TestRecover_KeepsAnAttachmentThatAGrantedClaimUses(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	saved := w.Save()
	w.Update("n1", attachingHalves("p")...)
	call := &structs.CSICall{
		NodeID: "n3",
		Op:     "attach",
		Time:   1,
	}
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "v",
		NodeID:       "n1",
		Call:         call,
		WriteOptions: w.Now(),
		RowIndex:     csi.Attachment(w.Store.Read(), "default", "v", "n1").CreateIndex,
	})
	back := w.restored(saved)
	a := csi.Attachment(back.Store.Read(), "default", "v", "n1")
	if a == nil || a.State != structs.AttachmentAttaching || a.Found ||
		!reflect.DeepEqual(a.Call, call) ||
		a.ExternalVolumeID != "ext-v" || a.ExternalNodeID == "" || a.PublishContext != nil {
		t.Fatalf("the attachment is %+v", a)
	}
	back.SetAccounted("n1", "n2", "n3")
	back.Release("v", "a1")
	if got := back.Attachment("v", "n1"); got != structs.AttachmentDetaching {
		t.Errorf("after the release it is %q", got)
	}
}
