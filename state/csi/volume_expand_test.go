package csi_test

import (
	"strings"
	"testing"

	"berth/state/csi"
	"berth/structs"
)

// expandingVolume returns threeNodes with a volume of 10 bytes and a request for 100. The plugin attaches and
// expands, only offline if offline is set.
func expandingVolume(t *testing.T, offline bool, before func(*fixture)) *fixture {
	t.Helper()
	w := threeNodes(t, true)
	controller := attaching(anInstance("p", structs.CSIKindController, true))[0]
	controller.ControllerInfo.SupportsExpand, controller.ExpandsOffline = true, offline
	w.Update("n1", controller)
	w.MustPut(func(v *structs.CSIVolume) { v.Context = map[string]string{"x": "y"} })
	before(w)
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 })
	return w
}

func (w *fixture) expandBytes(alloc string) int64 {
	return csi.Claim(w.Store.Read(), "default", "v", alloc).ExpandBytes
}

func (w *fixture) controllerExpanded(bytes int64) {
	w.T.Helper()
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:              "v",
		Op:              "expand",
		Capacity:        100,
		NodeExpandBytes: bytes,
		WriteOptions:    w.Now(),
	})
}

func (w *fixture) nodeExpanded(node, alloc string, bytes int64, err *structs.OperationError) {
	w.T.Helper()
	do(w, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
		VolumeID:     "v",
		AllocID:      alloc,
		NodeID:       node,
		Bytes:        bytes,
		Err:          err,
		WriteOptions: w.Now(),
	})
}

func TestDuty_J2_NodeExpansionIsRememberedByVolumeAndClaims(t *testing.T) {
	w := expandingVolume(t, false, func(w *fixture) {
		w.Claim(aClaim("v", "a1", rd, mnr), aClaim("v", "a2", rd, mnr))
	})
	w.controllerExpanded(100)
	if w.VolumeRow().NodeExpandBytes != 100 ||
		w.expandBytes("a1") != 100 || w.expandBytes("a2") != 100 ||
		w.VolumeRow().ExpandPending {
		t.Fatalf("the volume is %+v", w.VolumeRow())
	}
	w.nodeExpanded("n1", "a1", 100, nil)
	if w.VolumeRow().NodeExpandBytes != 100 ||
		w.expandBytes("a1") != 0 || w.expandBytes("a2") != 100 {
		t.Errorf("one of two nodes has expanded it: %+v", w.VolumeRow())
	}
	w.nodeExpanded("n2", "a2", 99, nil)
	if w.expandBytes("a2") != 100 {
		t.Error("the outcome of a smaller expansion counts for a larger one")
	}
	w.Release("v", "a2")
	if w.VolumeRow().NodeExpandBytes != 100 {
		t.Error("the step is deleted, but a node left without it")
	}
	w.Outcome("v", "n2", "detach", nil)
	w.Claim(aClaim("v", "a3", rd, mnr))
	if w.expandBytes("a3") != 100 {
		t.Error("the claim on the next node lacks the step")
	}
	w.nodeExpanded("n3", "a3", 100, nil)
	if w.VolumeRow().NodeExpandBytes != 0 ||
		len(collect(csi.GrowingClaims(w.Store.Read()))) != 0 {
		t.Errorf("every node has expanded it: %+v", w.VolumeRow())
	}
	w.Claim(aClaim("v", "b1", rd, mnr))
	if w.expandBytes("b1") != 0 {
		t.Error("a claim has the step after its end")
	}
}

func TestDuty_J12_RejectedWhileInUseIsLeftToTheNextStage(t *testing.T) {
	w := expandingVolume(t, false, func(w *fixture) {
		w.Claim(aClaim("v", "a1", wr, snw))
	})
	w.controllerExpanded(100)
	w.nodeExpanded("n1", "a1", 100, &structs.OperationError{Message: "busy", Kind: structs.KindTimeout})
	w.nodeExpanded("n1", "a1", 100, &structs.OperationError{Message: "busy", Kind: structs.KindTimeout})
	if c := csi.Claim(w.Store.Read(), "default", "v", "a1"); c.ExpandBytes != 100 ||
		c.ExpandError.Attempts != 2 {
		t.Errorf("the step is not tried again: %+v", c)
	}
	w.nodeExpanded("n1", "a1", 100, &structs.OperationError{Message: "in use", Kind: structs.KindPrecondition})
	if c := csi.Claim(w.Store.Read(), "default", "v", "a1"); c.ExpandBytes != 0 ||
		c.ExpandError == nil ||
		w.VolumeRow().NodeExpandBytes != 100 {
		t.Errorf("the claim is %+v", c)
	}
	w.Release("v", "a1")
	w.Outcome("v", "n1", "detach", nil)
	w.Claim(aClaim("v", "a2", wr, snw))
	if w.expandBytes("a2") != 100 {
		t.Error("the claim of the next stage lacks the step")
	}
}

func TestNodeExpanded_RejectsOtherNodesAndClaims(t *testing.T) {
	w := expandingVolume(t, false, func(w *fixture) {
		w.Claim(aClaim("v", "a1", wr, snw))
	})
	w.controllerExpanded(100)
	for _, p := range []*structs.CSINodeExpandOutcome{
		{
			VolumeID: "v",
			AllocID:  "a1",
			NodeID:   "n2",
			Bytes:    100,
		},
		{
			VolumeID: "v",
			AllocID:  "a1",
			NodeID:   "n1",
			Bytes:    100,
			SecretID: "secret-n2",
		},
	} {
		wantKind(t, try(w, csi.NodeExpanded, p), structs.KindDenied)
	}
	do(w, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
		VolumeID: "v",
		AllocID:  "a1",
		NodeID:   "n1",
		Bytes:    100,
		RowIndex: 1,
	})
	do(w, csi.NodeExpanded, &structs.CSINodeExpandOutcome{
		VolumeID: "v",
		AllocID:  "gone",
		NodeID:   "n1",
		Bytes:    100,
	})
	if w.expandBytes("a1") != 100 {
		t.Error("an outcome of another claim counts")
	}
}

func TestDuty_E5_J1_OfflineExpansionWaitsForUsersAndKeepsOthersOut(t *testing.T) {
	w := expandingVolume(t, true, func(w *fixture) {
		w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
	})
	blocked := func(says string) {
		t.Helper()
		why := csi.ExpandBlocked(w.Store.Read(), w.VolumeRow())
		if !strings.Contains(why, says) || says == "" && why != "" {
			t.Fatalf("it waits because %q, want %q", why, says)
		}
	}
	blocked("allocation a1 (job j) on node name-n1 holds volume v")
	w.Release("v", "a1")
	blocked("is being detached from node name-n1")
	at := w.VolumeRow().ModifyIndex
	w.Outcome("v", "n1", "detach", nil)
	blocked("")
	if w.VolumeRow().ModifyIndex == at {
		t.Error("no new row tells the leader that the volume is free")
	}
	w.WantClaims("v", map[string]string{"a2": structs.ClaimWaiting})
	w.WantReason("v", "a2", "volume v is being expanded; plugin p does that only while no node has the volume")
	w.Claim(aClaim("v", "a3", wr, snw))
	w.WantClaims("v", map[string]string{"a3": structs.ClaimWaiting})
	ok, _ := csi.Claimable(w.Store.Read(), aClaim("v", "b1", wr, snw), func(string) bool {
		return true
	})
	if ok {
		t.Error("a claim is possible during the expansion")
	}
	w.Blocked("waits", structs.WakeVolume("default", "v"))
	w.controllerExpanded(100)
	w.WantClaims("v", map[string]string{"a2": structs.ClaimGranted, "a3": structs.ClaimWaiting})
	if w.expandBytes("a2") != 100 {
		t.Error("the claim that waited lacks the step of its node")
	}
	w.WantEval("blocked-waits", structs.EvalPending)
}

func TestOfflineExpansion_WithoutAttachmentsBeginsWhenTheLastClaimGoes(t *testing.T) {
	w := threeNodes(t, false)
	controller := anInstance("p", structs.CSIKindController, true)
	controller.ExpandsOffline = true
	w.Update("n1", controller)
	w.Claim(aClaim("v", "a1", wr, snw))
	at := w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 }).ModifyIndex
	w.Release("v", "a1")
	if csi.ExpandBlocked(w.Store.Read(), w.VolumeRow()) != "" ||
		w.VolumeRow().ModifyIndex == at {
		t.Error("no new row tells the leader that the volume is free")
	}
}

func TestOfflineExpansion_UnusedVolumeIsNotGrantedBeforeItEnds(t *testing.T) {
	w := expandingVolume(t, true, func(*fixture) {})
	w.Claim(aClaim("v", "a1", wr, snw))
	w.WantClaims("v", map[string]string{"a1": structs.ClaimWaiting})
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           "expand",
		Final:        true,
		WriteOptions: w.Now(),
		Err:          &structs.OperationError{Message: "no", Kind: structs.KindInvalid},
	})
	w.WantClaims("v", map[string]string{"a1": structs.ClaimGranted})
}

func TestExpansionByNodesAlone_NeedsNoController(t *testing.T) {
	w := threeNodes(t, false)
	node := anInstance("p", structs.CSIKindNode, true)
	node.NodeInfo.SupportsExpand = true
	w.Update("n2", node)
	w.Claim(aClaim("v", "a1", wr, snw))
	if v := w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 }); v.ExpandPending ||
		v.NodeExpandBytes != 100 || w.expandBytes("a1") != 100 {
		t.Errorf("the volume is %+v", v)
	}
	w.nodeExpanded("n1", "a1", 100, nil)
	if v := w.VolumeRow(); v.NodeExpandBytes != 0 || v.Capacity != 100 {
		t.Errorf("the volume is %+v", v)
	}
}

func TestDuty_J7_ARequestIsTakenBackToASmallerSize(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.Capacity = 10 })
	request := func(n int64) error {
		return w.TryPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = n })
	}
	if err := request(1000); err != nil {
		t.Fatal(err)
	}
	w.FinishCall("expand", &structs.OperationError{Message: "busy", Kind: structs.KindUnavailable}, false)
	if err := request(50); err != nil ||
		w.VolumeRow().RequestedCapacityMin != 50 || !w.VolumeRow().ExpandPending ||
		w.VolumeRow().LastError != nil {
		t.Errorf("%v: %+v", err, w.VolumeRow())
	}
	wantKind(t, request(9), structs.KindConflict)
	if err := request(10); err != nil || !w.VolumeRow().ExpandPending {
		t.Errorf("the plugin is not called again, but its outcome is unknown: %v", err)
	}
	w.FinishCall("expand", nil, false)
	wantKind(t, request(5), structs.KindConflict)
}

func TestVolumeRetry_MakesAllErrorsDueNow(t *testing.T) {
	busy := &structs.OperationError{
		Message:   "busy",
		Kind:      structs.KindPrecondition,
		RetryTime: 1 << 62,
	}
	w := expandingVolume(t, false, func(w *fixture) {
		w.Claim(aClaim("v", "a1", wr, mnmw))
	})
	w.controllerExpanded(100)
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 200 })
	w.FinishCall("expand", busy, false)
	w.Outcome("v", "n1", "attach", busy)
	w.nodeExpanded("n1", "a1", 100, busy)
	retry := &structs.CSIVolumeRetryRequest{ID: "v", WriteOptions: w.Now()}
	do(w, csi.VolumeRetry, retry)
	c := csi.Claim(w.Store.Read(), "default", "v", "a1")
	for what, e := range map[string]*structs.OperationError{
		"volume":     w.VolumeRow().LastError,
		"claim":      c.ExpandError,
		"attachment": csi.Attachment(w.Store.Read(), "default", "v", "n1").LastError,
	} {
		if e == nil || e.RetryTime != retry.Now || e.Message != "busy" {
			t.Errorf("%s: got error %+v, want it due at %d", what, e, retry.Now)
		}
	}
	if c.ExpandBytes != 100 {
		t.Error("the step that was left to the next stage is not tried")
	}
	wantKind(t, try(w, csi.VolumeRetry, &structs.CSIVolumeRetryRequest{ID: "other"}), structs.KindNotFound)
}

func TestVolumePut_MakesAnErrorDueAndAnotherSizeDropsIt(t *testing.T) {
	w := newFixture(t)
	w.MustPut(creating, func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 })
	busy := &structs.OperationError{
		Message:   "busy",
		Kind:      structs.KindUnavailable,
		RetryTime: 1 << 62,
	}
	w.FinishCall("create", busy, false)
	if v := w.MustPut(creating,
		func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 }); v.LastError == nil ||
		v.LastError.RetryTime >= busy.RetryTime {
		t.Errorf("the last error is %+v", v.LastError)
	}
	if v := w.MustPut(creating,
		func(v *structs.CSIVolume) { v.RequestedCapacityMin = 50 }); v.LastError != nil ||
		v.RequestedCapacityMin != 50 {
		t.Errorf("a volume without a creation cannot become smaller: %+v", v)
	}
}

func TestVolumeDelete_CallsThePluginForAnExhaustedCreation(t *testing.T) {
	w := newFixture(t)
	w.MustPut(creating)
	w.FinishCall("create", &structs.OperationError{
		Message: "full",
		Kind:    structs.KindPrecondition,
		Code:    structs.CSICodeExhausted,
	}, true)
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
	if v := w.VolumeRow(); v == nil || v.State != structs.VolumeDeleting {
		t.Fatalf("a volume that may exist is not deleted at its plugin: %+v", v)
	}
	err := try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID: "v", WriteOptions: w.Now(),
	})
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "berth volume deregister -force v") {
		t.Error(err)
	}
	if v := w.FinishCall("delete", nil, false); v != nil {
		t.Errorf("the volume is %+v", v)
	}
}
