package state_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// A leader that was partitioned during a call reports its outcome when it leads again. Meanwhile the
// attachment may have been deleted and created again.
func TestAttachmentOutcome_IgnoresAFormerRow(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	first := csi.Attachment(w.Store.Read(), "default", "v", "n1").CreateIndex
	w.Release("v", "a1")
	do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     "v",
		NodeID:       "n1",
		Op:           "detach",
		RowIndex:     first,
		WriteOptions: w.Now(),
	})
	w.Claim(aClaim("v", "a1", wr, snw))
	second := csi.Attachment(w.Store.Read(), "default", "v", "n1").CreateIndex
	late := func(op string, of uint64) {
		do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
			VolumeID:     "v",
			NodeID:       "n1",
			Op:           op,
			RowIndex:     of,
			WriteOptions: w.Now(),
		})
	}
	late("attach", first)
	if w.Attachment("v", "n1") != structs.AttachmentAttaching {
		t.Errorf("an attach of the former row made this one %s", w.Attachment("v", "n1"))
	}
	late("attach", second)
	if w.Attachment("v", "n1") != structs.AttachmentAttached {
		t.Errorf("after its own attach it is %s", w.Attachment("v", "n1"))
	}
	w.Release("v", "a1")
	late("detach", first)
	if w.Attachment("v", "n1") != structs.AttachmentDetaching {
		t.Error("a detach of the former row deleted this one")
	}
}

func TestVolumeOutcome_IgnoresAFormerRow(t *testing.T) {
	w := threeNodes(t, false)
	put := func() uint64 {
		v := aVolume("new", "p")
		v.ExternalID, v.State = "", structs.VolumeCreating
		do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{v},
			WriteOptions: w.Now(),
		})
		return csi.Volume(w.Store.Read(), "default", "new").CreateIndex
	}
	late := func(op, external string, of uint64) {
		do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
			ID:           "new",
			Op:           op,
			ExternalID:   external,
			RowIndex:     of,
			WriteOptions: w.Now(),
		})
	}
	first := put()
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "new", WriteOptions: w.Now()})
	late("delete", "", first)
	second := put()
	late("create", "ext-old", first)
	if csi.Volume(w.Store.Read(), "default", "new").ExternalID != "" {
		t.Error("a volume has the ID of a deleted volume")
	}
	late("create", "ext-new", second)
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "new", WriteOptions: w.Now()})
	late("delete", "", first)
	if csi.Volume(w.Store.Read(), "default", "new") == nil {
		t.Error("the row of a volume that its plugin still has was deleted")
	}
}

func (w *fixture) force(volume, alloc string) error {
	return try(w, state.VolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		WriteOptions: w.Now(),
		Operator:     "forced: it burns",
		Claims: []structs.CSIClaimKey{{
			Namespace: "default",
			VolumeID:  volume,
			AllocID:   alloc,
		}},
	})
}

// An allocation that lost its volume by force must never write to it again, also not when its node comes
// back.
func TestVolumeForce_EndsTheAllocation(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
	wantKind(t, w.force("v", "a1"), structs.KindPrecondition) // its node is up: the allocation may write
	wantKind(t, w.force("v", "a2"), structs.KindPrecondition)
	w.WantClaims("v", map[string]string{"a1": granted, "a2": waiting})

	w.Status(structs.NodeDown, "n1")
	before := state.Alloc(w.Store.Read(), "a1").AllocModifyIndex
	if err := w.force("v", "a1"); err != nil {
		t.Fatal(err)
	}
	w.WantClaims("v", map[string]string{"a1": "", "a2": granted})
	w.wantEvaluated("node-update " + state.Alloc(w.Store.Read(), "a1").JobID)
	a := state.Alloc(w.Store.Read(), "a1")
	if a.ClientStatus != structs.AllocLost || a.DesiredStatus != structs.AllocDesiredStop ||
		a.AllocModifyIndex <= before {
		t.Errorf("a node that comes back would continue the allocation: %+v", a)
	}
	if !strings.Contains(a.DesiredDescription, "v") ||
		!strings.Contains(a.DesiredDescription, "it burns") {
		t.Errorf("the description %q does not give the reason", a.DesiredDescription)
	}
	w.Status(structs.NodeReady, "n1")
	wantKind(t, w.TryClaim(aClaim("v", "a1", wr, snw)), structs.KindPrecondition)
}

func TestVolumeForce_OfAnEndedAllocation(t *testing.T) {
	w := threeNodes(t, false)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Client("n1", "a1", structs.AllocComplete)
	before := *state.Alloc(w.Store.Read(), "a1")
	if err := w.force("v", "a1"); err != nil {
		t.Fatal(err)
	}
	w.WantClaims("v", map[string]string{"a1": ""})
	now := state.Alloc(w.Store.Read(), "a1")
	if now.ModifyIndex != before.ModifyIndex {
		t.Errorf("the ended allocation was put again: %+v", now)
	}
}

// Under another name a second node would get the volume before the first has detached it.
func TestVolumePut_RejectsAVolumeThatDetaches(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Release("v", "a1")
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           "v",
		Force:        true,
		WriteOptions: w.Now(),
	})
	again := aVolume("other", "p")
	again.ExternalID = "ext-v"
	put := &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{again}, WriteOptions: w.Now()}
	err := try(w, csi.VolumePut, put)
	wantKind(t, err, structs.KindPrecondition)
	if err != nil && !strings.Contains(err.Error(), "still being detached from node name-n1") {
		t.Errorf("the error does not give the reason: %v", err)
	}
	w.Outcome("v", "n1", "detach", nil)
	do(w, csi.VolumePut, put)
}

// The plugin keeps its row while an attachment needs a detach.
func TestPlugin_ExistsWhileItHasAttachments(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Release("v", "a1")
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           "v",
		Force:        true,
		WriteOptions: w.Now(),
	})
	for _, n := range []string{"n1", "n2", "n3"} {
		do(w, state.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
			NodeID:       n,
			Full:         true,
			WriteOptions: w.Now(),
		})
	}
	err := try(w, csi.PluginDelete, &structs.CSIPluginDeleteRequest{ID: "p", WriteOptions: w.Now()})
	wantKind(t, err, structs.KindPrecondition)
	w.Outcome("v", "n1", "detach", nil)
	if csi.Plugin(w.Store.Read(), "p") != nil {
		t.Error("the plugin has a row, but nothing refers to it")
	}
}

// A plugin begins to attach. A claim that was granted before gets its attachment.
func TestPlugin_BeginsToAttach(t *testing.T) {
	w := newFixture(t)
	w.Node("n1", anInstance("p", structs.CSIKindNode, true))
	w.Volume("v", "p")
	w.Alloc("a1", "j", "n1")
	w.Claim(aClaim("v", "a1", wr, snw))
	w.WantClaims("v", map[string]string{"a1": granted})
	w.Update("n1", attachingHalves("p")...)
	if w.Attachment("v", "n1") != structs.AttachmentAttaching {
		t.Errorf("the attachment is %q", w.Attachment("v", "n1"))
	}
}

// A node without a row that reports a volume without a claim becomes unaccounted.
func TestNodeRegister_OfAnUnknownNodeWithVolumes(t *testing.T) {
	w := threeNodes(t, false)
	held := []structs.CSIHeldClaim{{CSIClaimKey: structs.CSIClaimKey{
		Namespace: "default",
		VolumeID:  "v",
		AllocID:   "gone",
	}}}
	register := func(id string, i *structs.NodeInventory) {
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{
			Node:         aNode(id),
			Inventory:    i,
			WriteOptions: w.Now(),
		})
	}
	register("n4", nil)
	register("n5", &structs.NodeInventory{})
	register("n1", &structs.NodeInventory{Held: held}) // known, but an operator released its claims
	if why := csi.Recovering(w.Store.Read()); why != "" {
		t.Error(why)
	}
	register("n6", &structs.NodeInventory{Held: held})
	if why := csi.Recovering(w.Store.Read()); !strings.Contains(why, "name-n6") {
		t.Errorf("the servers do not wait for its volumes: %q", why)
	}
	register("n6", &structs.NodeInventory{}) // a heartbeat makes its report valid
	do(w, state.NodeStatus, &structs.NodeStatusUpdate{
		NodeIDs:      []string{"n6"},
		Status:       structs.NodeReady,
		Accounted:    true,
		WriteOptions: w.Now(),
	})
	if why := csi.Recovering(w.Store.Read()); why != "" {
		t.Error(why)
	}
}

// An evaluation that waits for capacity among very many volumes does not name each of them.
func TestBlockedEvals_OfManyVolumesWaitForCapacity(t *testing.T) {
	for most, want := range map[int64]string{
		structs.ManyVolumes:     structs.EvalBlocked,
		structs.ManyVolumes + 1: structs.EvalPending,
	} {
		w := newFixture(t)
		n := anInstance("p", structs.CSIKindNode, true)
		n.NodeInfo.MaxVolumes = most
		w.Node("n1", n)
		w.Volume("v", "p")
		w.Alloc("a1", "j", "n1")
		w.Claim(aClaim("v", "a1", wr, snw))
		w.Job(aJob("waits", structs.JobService))
		e := &structs.Evaluation{
			ID:            "e",
			Namespace:     "default",
			JobID:         "waits",
			Status:        structs.EvalBlocked,
			SnapshotIndex: w.Index,
			BlockedOn:     []string{structs.WakeVolume("default", "another"), structs.WakePlugin("p")},
		}
		do(w, state.EvalUpdate, &structs.EvalUpdateRequest{
			Evals:        []*structs.Evaluation{e},
			WriteOptions: w.Now(),
		})
		w.Release("v", "a1")
		got := state.Eval(w.Store.Read(), "e").Status
		if got != want {
			t.Errorf("with at most %d volumes: got %s, want %s", most, got, want)
		}
	}
}
