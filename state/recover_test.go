package state_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/lease"
	"berth/structs"
	"berth/structs/cluster"
)

func TestRecover_KeepsTheAttachmentsOfTheStateThatIsReplaced(t *testing.T) {
	w := threeNodes(t, true)
	saved := w.Save()
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	back := w.restored(saved)
	a := csi.Attachment(back.Store.Read(), "default", "v", "n1")
	if a == nil || a.State != structs.AttachmentDetaching || !a.Found ||
		a.ExternalNodeID == "" ||
		a.ExternalVolumeID != "ext-v" || a.PublishContext != nil {
		t.Fatalf("the attachment without a claim in the restored state is %+v", a)
	}
	if why := csi.AttachmentWaits(back.Store.Read(), a); why == "" {
		t.Error("it may be detached before its node has reported its volumes")
	}
	back.SetAccounted("n1", "n2", "n3")
	if why := csi.AttachmentWaits(back.Store.Read(), a); why != "" {
		t.Error(why)
	}
	back.Claim(aClaim("v", "a2", wr, snw))
	back.WantReason("v", "a2", "is being detached from node name-n1")
	back.Outcome("v", "n1", "detach", nil)
	back.WantClaims("v", map[string]string{"a2": granted})
}

func TestRecover_AttachesAttachedVolumesAgain(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	w.Outcome("v", "n1", "attach", nil)
	saved := w.Save()
	back := w.restored(saved)
	if got := back.Attachment("v", "n1"); got != structs.AttachmentAttaching {
		t.Errorf("the attachment is %s", got)
	}
	back.WantClaims("v", map[string]string{"a1": granted})
	back.WantReason("v", "a1", "has not yet reported that all its volumes have claims")
	back.SetAccounted("n1", "n2", "n3")
	back.Outcome("v", "n1", "attach", nil)
	back.WantReason("v", "a1", "")
}

// The attachment of the snapshot belongs to the same node, so there is no second one.
func TestRecover_KeepsAnAttachmentThatBothStatesHave(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	saved := w.Save()
	w.Outcome("v", "n1", "attach", nil)
	w.Release("v", "a1")
	if a := csi.Attachment(w.restored(saved).Store.Read(), "default", "v",
		"n1"); a.State != structs.AttachmentAttaching || a.Found {
		t.Errorf("the attachment is %+v", a)
	}
}

// Readers of the state that is replaced still see its rows.
func TestRecover_LeavesTheReplacedStateAsItIs(t *testing.T) {
	w := newFixture(t)
	saved := w.Save()
	w.Node("n1")
	event := &structs.NodeEvent{Message: "m", Details: map[string]string{"k": "v"}}
	do(w, state.NodeEvents, &structs.NodeEventsRequest{Events: map[string][]*structs.NodeEvent{"n1": {event}}})
	events := state.Node(w.Store.Read(), "n1").Events
	last := events[len(events)-1]
	before := addressOf(last.Details)
	back := w.restored(saved)
	n := state.Node(back.Store.Read(), "n1")
	if n == nil || len(n.Events) != len(events)+1 {
		t.Fatalf("the restored state has the node %+v", n)
	}
	if addressOf(last.Details) != before {
		t.Error("a row of the replaced state was changed")
	}
}

// The clock of the server that proposed an earlier entry may have been behind that of the call.
func TestVolumeForce_OfAnEarlierVersionWaitsForNoCall(t *testing.T) {
	for settle, forgotten := range map[time.Duration]bool{0: true, 1: false} {
		w := threeNodes(t, true)
		w.Claim(aClaim("v", "a1", wr, snw))
		w.NoteCall("n1", &structs.CSICall{
			NodeID: "n3",
			Op:     "attach",
			Time:   1000,
		})
		w.Release("v", "a1")
		a := csi.Attachment(w.Store.Read(), "default", "v", "n1")
		force := &structs.CSIVolumeForceRequest{
			VolumeID:     "v",
			NodeID:       "n1",
			Attachment:   a.CreateIndex,
			Settle:       settle,
			WriteOptions: structs.WriteOptions{Now: 999},
		}
		w.Index++
		err := w.Store.Write(w.Index, func(tx *state.WriteTx) error { return state.VolumeForce(tx, force) })
		if a := csi.Attachment(w.Store.Read(), "default", "v", "n1"); (err == nil) != forgotten ||
			(a == nil) != forgotten {
			t.Errorf("settled after %s: %v, %+v", settle, err, a)
		}
	}
}

// A call that was in flight when the state was replaced stays recorded, whatever state the restored row
// requests.
func TestRecover_KeepsTheCallsInFlight(t *testing.T) {
	call := func(op string, time int64) *structs.CSICall {
		return &structs.CSICall{
			NodeID: "n3",
			Op:     op,
			Time:   time,
		}
	}
	for name, c := range map[string]struct{ saved, replaced, want *structs.CSICall }{
		"none in the snapshot":        {nil, call("new", 2), call("new", 2)},
		"an earlier one":              {call("old", 1), call("new", 2), call("new", 2)},
		"a later one":                 {call("old", 2), call("new", 1), call("old", 2)},
		"none since":                  {call("old", 1), nil, call("old", 1)},
		"none":                        {nil, nil, nil},
		"the same one, still unknown": {call("old", 1), call("old", 1), call("old", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t, true)
			w.Claim(aClaim("v", "a1", wr, snw))
			w.NoteCall("n1", c.saved)
			w.NoteCall("", c.saved)
			saved := w.Save()
			w.Release("v", "a1")
			w.NoteCall("n1", c.replaced)
			w.NoteCall("", c.replaced)
			back := w.restored(saved).Store.Read()
			a, v := csi.Attachment(back, "default", "v", "n1"), csi.Volume(back, "default", "v")
			if !reflect.DeepEqual(a.Call, c.want) || !reflect.DeepEqual(v.Call, c.want) {
				t.Errorf("the attachment names %+v, the volume %+v, want %+v", a.Call, v.Call, c.want)
			}
		})
	}
}

func TestRecover_KeepsTheCallOfAnAttachmentThatOnlyTheReplacedStateHas(t *testing.T) {
	w := threeNodes(t, true)
	saved := w.Save()
	w.Claim(aClaim("v", "a1", wr, snw))
	call := &structs.CSICall{
		NodeID: "n3",
		Op:     "attach",
		Time:   1,
	}
	w.NoteCall("n1", call)
	a := csi.Attachment(w.restored(saved).Store.Read(), "default", "v", "n1")
	if !a.Found || !reflect.DeepEqual(a.Call, call) {
		t.Errorf("the attachment is %+v", a)
	}
}

func TestRecover_WaitsForEveryNodeThatMayHoldAVolume(t *testing.T) {
	w := threeNodes(t, false)
	down := func(w *fixture, n string) {
		do(w, state.NodeStatus, &structs.NodeStatusUpdate{
			NodeIDs:      []string{n},
			Status:       structs.NodeDown,
			WriteOptions: w.Now(),
		})
	}
	down(w, "n3")
	saved := w.Save()
	w.SetAccounted("n3") // it came back after the snapshot
	w.Node("n4")         // it joined after the snapshot
	w.Node("n5")
	down(w, "n5")
	back := w.restored(saved)
	for id, want := range map[string]bool{
		"n1": true,
		"n3": true,
		"n4": true,
	} {
		if n := state.Node(back.Store.Read(), id); n == nil || n.Unaccounted != want {
			t.Errorf("node %s is %+v, want unaccounted %t", id, n, want)
		}
	}
	if state.Node(back.Store.Read(), "n5") != nil {
		t.Error("the restored state has node n5, which held nothing in the replaced state")
	}
	fresh := newFixture(t)
	fresh.Index = w.Index
	if back := fresh.restored(saved); !state.Node(back.Store.Read(), "n3").Unaccounted {
		t.Error("node n3 is accounted for, but it may have come back after the snapshot")
	}
}

func TestRecover_CancelsDeletions(t *testing.T) {
	w := threeNodes(t, false)
	unmade := aVolume("unmade", "p")
	unmade.ExternalID, unmade.State = "", structs.VolumeCreating
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{unmade},
		WriteOptions: w.Now(),
	})
	for _, id := range []string{"v", "unmade"} {
		do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
			ID:           id,
			Secrets:      structs.Secrets{"only": "to delete"},
			WriteOptions: w.Now(),
		})
	}
	back := w.restored(w.Save())
	for id, want := range map[string]string{"v": structs.VolumeReady, "unmade": structs.VolumeCreating} {
		v := csi.Volume(back.Store.Read(), "default", id)
		if v.Secrets["only"] != "" || v.State != want ||
			v.LastError == nil ||
			!strings.Contains(v.LastError.Message, "delete it again") {
			t.Errorf("volume %s is %s with the error %+v", id, v.State, v.LastError)
		}
		do(back, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: id, WriteOptions: back.Now()})
		if v := csi.Volume(back.Store.Read(), "default", id); v.State != structs.VolumeDeleting ||
			v.LastError != nil {
			t.Errorf("volume %s is %s with the error %+v", id, v.State, v.LastError)
		}
	}
}

func TestAttachmentsFound_CompletesFromTheRows(t *testing.T) {
	w := threeNodes(t, true)
	v := aVolume("v", "p")
	v.Secrets = structs.Secrets{"key": "value"}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
	find := func(as ...*structs.CSIAttachment) {
		do(w, state.AttachmentsFound, &structs.CSIAttachmentsFound{Attachments: as, WriteOptions: w.Now()})
	}
	find(&structs.CSIAttachment{
		Namespace: "default",
		VolumeID:  "v",
		NodeID:    "n2",
	})
	a := csi.Attachment(w.Store.Read(), "default", "v", "n2")
	if a == nil || a.PluginID != "p" || a.ExternalVolumeID != "ext-v" ||
		a.ExternalNodeID != "external" ||
		a.Secrets["key"] != "value" || !a.Found {
		t.Fatalf("the attachment is %+v", a)
	}
	before := a.ModifyIndex
	find(&structs.CSIAttachment{
		Namespace:      "default",
		VolumeID:       "v",
		NodeID:         "n2",
		ExternalNodeID: "other",
	})
	if a := csi.Attachment(w.Store.Read(), "default", "v", "n2"); a.ModifyIndex != before {
		t.Error("an existing row was changed")
	}
	w.Outcome("v", "n2", "detach", nil)
	w.Claim(aClaim("v", "a1", wr, snw))
	used := &structs.CSIAttachment{
		Namespace: "default",
		VolumeID:  "v",
		NodeID:    "n1",
	}
	incomplete := &structs.CSIAttachment{
		Namespace: "default",
		VolumeID:  "gone",
		NodeID:    "n1",
		PluginID:  "p",
	}
	complete := &structs.CSIAttachment{
		Namespace:        "default",
		VolumeID:         "gone",
		NodeID:           "n2",
		PluginID:         "p",
		ExternalVolumeID: "x",
		ExternalNodeID:   "y",
	}
	find(used, incomplete, complete)
	if w.Attachment("v", "n1") != structs.AttachmentAttaching ||
		w.Attachment("gone", "n1") != "" ||
		w.Attachment("gone", "n2") != structs.AttachmentDetaching {
		t.Errorf("v: %s, gone: %q, %q", w.Attachment("v", "n1"), w.Attachment("gone", "n1"),
			w.Attachment("gone", "n2"))
	}
	wantKind(t,
		try(w, state.AttachmentsFound, &structs.CSIAttachmentsFound{Attachments: []*structs.CSIAttachment{nil}}),
		structs.KindInvalid)
}

// A claim that was granted before the other node reported the volume does not attach it a second time.
func TestAttachmentWaits_ForTheDetachElsewhere(t *testing.T) {
	w := threeNodes(t, true)
	w.Claim(aClaim("v", "a1", wr, snw))
	do(w, state.AttachmentsFound, &structs.CSIAttachmentsFound{
		WriteOptions: w.Now(),
		Attachments: []*structs.CSIAttachment{{
			Namespace: "default",
			VolumeID:  "v",
			NodeID:    "n2",
		}},
	})
	w.WantReason("v", "a1", "is being detached from node name-n2")
	w.Outcome("v", "n2", "detach", nil)
	w.WantReason("v", "a1", "is being attached to node name-n1")
}

// A node at the limit of its plugin gets another volume when the one that leaves is detached, or when its
// detach has failed: then the plugin decides.
func TestAttachmentWaits_ForADetachAtTheLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  int64
		mode   structs.CSIAccessMode
		failed *structs.OperationError
		waits  bool
	}{
		{"at the limit", 1, snw, nil, true},
		{"at the limit, for many nodes", 1, mnmw, nil, true},
		{"below the limit", 2, snw, nil, false},
		{"without a limit", 0, snw, nil, false},
		{"when the detach has failed", 1, snw, &structs.OperationError{Message: "it is busy"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := threeNodes(t, true)
			half := anInstance("p", structs.CSIKindNode, true)
			half.NodeInfo.MaxVolumes = c.limit
			w.Node("n1", attaching(half, anInstance("p", structs.CSIKindController, true))...)
			w.Volume("next", "p")
			w.Claim(aClaim("v", "a1", wr, snw))
			w.Outcome("v", "n1", "attach", nil)
			w.Claim(aClaim("v", "a2", wr, snw)) // of another node: it waits in the queue
			w.Release("v", "a1")
			w.Claim(aClaim("next", "b1", wr, c.mode))
			if c.failed != nil {
				w.Outcome("v", "n1", "detach", c.failed)
			}
			want := "volume next is being attached to node name-n1"
			if c.waits {
				want = "plugin p has its limit of 1 volumes on the node; volume v is being detached from node name-n1"
			}
			w.WantReason("next", "b1", want)
			w.Outcome("v", "n1", "detach", nil)
			w.WantReason("next", "b1", "volume next is being attached to node name-n1")
		})
	}
}

// The nodes count leases that the leaders of the replaced state have granted, and perhaps leases of the
// leaders of the archive, if that is of another cluster.
func TestRecover_KeepsTheLongerBoundOfLeases(t *testing.T) {
	bound := func(longest time.Duration) *fixture {
		w := newFixture(t)
		do(w, lease.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: longest})
		return w
	}
	for _, c := range []struct{ archive, before, want time.Duration }{
		{time.Minute, time.Second, time.Minute},
		{time.Second, time.Minute, time.Minute},
	} {
		w := bound(c.archive)
		before := bound(c.before).Store.Read()
		err := w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
			state.Recover(tx, before, 1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := lease.Bound(w.Store.Read()); got != c.want {
			t.Errorf("archive %s, replaced state %s: the bound is %s", c.archive, c.before, got)
		}
	}
}

// Servers that go on from an archive, or with the members of an operator, may have less than they have
// acknowledged. The row forgets what they have acknowledged. Otherwise their votes would never count again.
func TestRecover_ForgetsWhatServersHaveStored(t *testing.T) {
	w := newFixture(t)
	do(w, clustertime.Put, &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{
		Time:   5,
		Stored: []cluster.StoredIndex{{Server: "s1", Index: 100}},
	}})
	if row := clustertime.Of(w.Store.Read()); row == nil || len(row.Stored) != 1 {
		t.Fatalf("the row is %+v", row)
	}
	row := clustertime.Of(w.restored(w.Save()).Store.Read())
	if row == nil || row.Time != 5 || len(row.Stored) != 0 {
		t.Errorf("the row is %+v, want the time alone", row)
	}
}
