package state_test

import (
	"reflect"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func (w *fixture) deregister(id string) {
	w.t.Helper()
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: id, WriteOptions: w.now()})
}

func (w *fixture) register(id, external string) {
	w.t.Helper()
	v := aVolume(id, "p")
	v.ExternalID = external
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.now(),
	})
}

// renamedAndAttached registers the volume under another name and attaches it.
func renamedAndAttached(w *fixture, to string) {
	w.deregister("v")
	w.register("w", "ext-v")
	w.claim(aClaim("w", "b"+to[1:], wr, snw))
	w.outcome("w", to, "attach", nil)
}

func TestRecover_DetachesAVolumeUnderTheNameThatItHasNow(t *testing.T) {
	w := threeNodes(t, true)
	saved := w.save()
	renamedAndAttached(w, "n1")
	for _, alloc := range []string{"a1", "a2"} { // on the same node, and on another one
		back := w.restored(saved)
		if got := back.attachment("w", "n1"); got != "" {
			t.Errorf("the attachment under the former name is %q", got)
		}
		back.setAccounted("n1", "n2", "n3")
		back.claim(aClaim("v", alloc, wr, snw))
		back.wantReason("v", alloc, "is being detached from node name-n1")
		back.outcome("v", "n1", "detach", nil)
		back.wantClaims("v", map[string]string{alloc: granted})
	}
}

// The claim of the restored state keeps the volume attached under any name that it had meanwhile.
func TestRecover_DoesNotDetachUnderAClaimOfAnotherName(t *testing.T) {
	w := threeNodes(t, true)
	w.claim(aClaim("v", "a1", wr, snw))
	w.outcome("v", "n1", "attach", nil)
	saved := w.save()
	w.release("v", "a1")
	w.outcome("v", "n1", "detach", nil)
	renamedAndAttached(w, "n1")
	w.release("w", "b1")
	call := &structs.CSICall{
		NodeID: "n3",
		Op:     "detach",
		Time:   1,
	}
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "w",
		NodeID:       "n1",
		Call:         call,
		WriteOptions: w.now(),
		RowIndex:     csi.Attachment(w.s.Read(), "default", "w", "n1").CreateIndex,
	})
	back := w.restored(saved)
	a := csi.Attachment(back.s.Read(), "default", "v", "n1")
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
	found := state.Unrecorded(back.s.Read(), "n1", held)
	if back.attachment("w", "n1") != "" || len(found) != 0 {
		t.Errorf("an attachment with a claim is to be detached: %+v", found)
	}
}

// The name was given to another volume, which stays attached until it is detached.
func TestRecover_DetachesAVolumeWhoseNameWasReused(t *testing.T) {
	w := threeNodes(t, true)
	w.claim(aClaim("v", "a1", wr, snw))
	saved := w.save()
	w.release("v", "a1")
	w.outcome("v", "n1", "detach", nil)
	w.deregister("v")
	w.register("v", "ext-2")
	w.claim(aClaim("v", "b1", wr, snw))
	back := w.restored(saved)
	v, other := csi.Attachment(back.s.Read(), "default", "v", "n1"), csi.AttachedAs(back.s.Read(), "p", "ext-2")
	if v.ExternalVolumeID != "ext-v" || other == nil || !other.Found ||
		other.NodeID != "n1" {
		t.Errorf("the attachments are %+v and %+v", v, other)
	}
	wantKind(t, try(back, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		WriteOptions: back.now(),
		Volumes: []*structs.CSIVolume{{
			ID:         "w",
			PluginID:   "p",
			ExternalID: "ext-2",
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
		WriteOptions: w.now(),
	})
	saved := w.save()
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "u",
		Op:           "create",
		ExternalID:   "ext-u",
		WriteOptions: w.now(),
	})
	w.claim(aClaim("u", "a1", wr, snw))
	a := csi.Attachment(w.restored(saved).s.Read(), "default", "u", "n1")
	if a == nil || !a.Found {
		t.Errorf("the attachment is %+v", a)
	}
}

// The plugin began to attach after the snapshot, in which the claim was granted without an attachment.
func TestRecover_KeepsAnAttachmentThatAGrantedClaimUses(t *testing.T) {
	w := threeNodes(t, false)
	w.claim(aClaim("v", "a1", wr, snw))
	saved := w.save()
	w.update("n1", attachingHalves("p")...)
	call := &structs.CSICall{
		NodeID: "n3",
		Op:     "attach",
		Time:   1,
	}
	do(w, csi.CallNote, &structs.CSICallNote{
		VolumeID:     "v",
		NodeID:       "n1",
		Call:         call,
		WriteOptions: w.now(),
		RowIndex:     csi.Attachment(w.s.Read(), "default", "v", "n1").CreateIndex,
	})
	back := w.restored(saved)
	a := csi.Attachment(back.s.Read(), "default", "v", "n1")
	if a == nil || a.State != structs.AttachmentAttaching || a.Found ||
		!reflect.DeepEqual(a.Call, call) ||
		a.ExternalVolumeID != "ext-v" || a.ExternalNodeID == "" || a.PublishContext != nil {
		t.Fatalf("the attachment is %+v", a)
	}
	back.setAccounted("n1", "n2", "n3")
	back.release("v", "a1")
	if got := back.attachment("v", "n1"); got != structs.AttachmentDetaching {
		t.Errorf("after the release it is %q", got)
	}
}
