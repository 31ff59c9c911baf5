package node_test

import (
	"slices"
	"testing"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/cluster"
)

func heartbeat(
	s *endpointstest.Server, node string, reported *structs.NodeInventory,
) *structs.NodeHeartbeatResponse {
	s.T.Helper()
	return endpointstest.Must(s, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{
		NodeID:    node,
		SecretID:  endpointstest.SecretOf(node),
		Status:    structs.NodeReady,
		Inventory: reported,
	})
}

func heldClaim(volume, alloc string) structs.CSIHeldClaim {
	return structs.CSIHeldClaim{
		CSIClaimKey: structs.CSIClaimKey{
			Namespace: "default",
			VolumeID:  volume,
			AllocID:   alloc,
		},
	}
}

// A volume that a node holds, or has released since the restore, may be attached to it without a row.
func TestHeartbeat_RecordsTheAttachmentsOfAnUnaccountedNode(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	for _, v := range []string{"held", "left", "own"} {
		s.AddVolume(v)
	}
	s.AddAlloc("a1", "n1")
	s.Claim("own", "a1", "n1")
	s.Raft.MarkRestored(s.T, 1)
	unknown := heldClaim("unknown", "gone")
	unknown.PluginID = "pl"
	unknown.ExternalVolumeID = "ext-unknown"
	unknown.ExternalNodeID = "former-id"
	reported := &structs.NodeInventory{
		Held: []structs.CSIHeldClaim{
			heldClaim("own", "a1"),
			heldClaim("held", "gone"),
			unknown,
		},
		Left: []structs.CSIHeldClaim{
			heldClaim("left", "gone"),
			heldClaim("held", "gone"),
		},
	}
	if !heartbeat(s, "n1", nil).Unaccounted || !heartbeat(s, "n1", reported).Unaccounted {
		t.Error("the node holds volumes without a claim, and is accounted for")
	}
	attached := func(volume string) *structs.CSIAttachment {
		return csi.Attachment(s.Store.Read(), "default", volume, "n1")
	}
	for volume, external := range map[string]string{"held": "ext-n1", "left": "ext-n1", "unknown": "former-id"} {
		a := attached(volume)
		if a == nil || a.State != structs.AttachmentDetaching ||
			a.ExternalNodeID != external || a.ExternalVolumeID != "ext-"+volume {
			t.Errorf("%s: %+v", volume, a)
		}
	}
	if a := attached("held"); a.Secrets["password"] != "hunter2" {
		t.Error("the attachment lacks the secrets of the volume")
	}
	if a := attached("own"); a.State != structs.AttachmentAttaching || a.Found {
		t.Errorf("the claimed volume: %+v", a)
	}
	written := s.Raft.Len()
	heartbeat(s, "n1", reported)
	if n := s.Raft.Len(); n != written {
		t.Errorf("a repeated report writes %d entries, want 0", n-written)
	}
	if heartbeat(s, "n1", &structs.NodeInventory{Held: reported.Held[:1], Left: reported.Left}).Unaccounted {
		t.Error("the node holds only claimed volumes, and is not accounted for")
	}
}

// A node says by which ID its plugin knows it. The servers detach nothing from another node on its word.
func TestHeartbeat_RecordsNoAttachmentToAnotherNode(t *testing.T) {
	s := endpointstest.New(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		s.AddNode(n, "a")
	}
	knownAs(s, "n2", "ext-n3") // it says so
	knownAs(s, "n3", "ext-n3")
	for _, v := range []string{"idle", "used", "own"} {
		s.AddVolume(v)
	}
	s.AddAlloc("a3", "n3")
	s.Claim("used", "a3", "n3")
	s.Raft.MarkRestored(s.T, 1)
	for _, c := range []struct {
		node, volume, external string
		want                   bool
	}{
		{"n1", "idle", "ext-n3", false}, // another node reports this ID
		{"n1", "idle", "ext-n1", true},
		{"n2", "used", "ext-n3", false}, // the volume is attached to another node by this ID
		{"n3", "own", "ext-n3", true},   // one ID for two nodes, and this is one of them
	} {
		held := heldClaim(c.volume, "gone")
		held.ExternalNodeID = c.external
		heartbeat(s, c.node, &structs.NodeInventory{Held: []structs.CSIHeldClaim{held}})
		if got := csi.Attachment(s.Store.Read(), "default", c.volume, c.node); (got != nil) != c.want {
			t.Errorf("%s holds %s as %s: got %+v, want a row: %t", c.node, c.volume, c.external, got, c.want)
		}
	}
}

// knownAs makes a node report the ID by which the plugin "pl" knows it.
func knownAs(s *endpointstest.Server, node, external string) {
	s.T.Helper()
	half := *csi.Instance(s.Store.Read(), "pl", structs.CSIKindNode, node)
	half.NodeInfo = &structs.CSINodeInfo{ID: external}
	endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
		Upserts:  []*structs.CSIPluginInstance{&half},
	})
}

// A node deletes its record of a volume once the servers know of the release.
func TestRelease_WaitsForTheReportOfAnUnaccountedNode(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.Raft.MarkRestored(s.T, 1)
	release := &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims:   []structs.CSIClaimKey{{VolumeID: "v", AllocID: "gone"}},
	}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeUnpublish, release)
	endpointstest.WantText(t, err, "report its volumes first")
	heartbeat(s, "n1", &structs.NodeInventory{})
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release)
}

// serverWithUnclaimedVolume is a server with the volume v, which no claim names.
func serverWithUnclaimedVolume(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s := endpointstest.New(t)
	n := s.AddNode("n1", "a")
	s.AddVolume("v")
	n.Calls = nil
	return s, n
}

func detachFrom(node string) *structs.CSIVolumeDetachRequest {
	return &structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: node}
}

func forceFrom(node string) *structs.CSIVolumeDetachRequest {
	return &structs.CSIVolumeDetachRequest{
		VolumeID: "v",
		NodeID:   node,
		Force:    true,
		Reason:   "it is off",
	}
}

func attachmentTo(s *endpointstest.Server, node string) *structs.CSIAttachment {
	return csi.Attachment(s.Store.Read(), "default", "v", node)
}

func TestUnclaimedDetach_CallsAnUpNodeFirst(t *testing.T) {
	s, n := serverWithUnclaimedVolume(t)
	endpointstest.Must(s, structs.CSIVolumeDetach, detachFrom("n1"))
	a := attachmentTo(s, "n1")
	if !slices.Equal(n.Called(), []string{"ClientCSI.NodeDetachVolume"}) || a == nil ||
		a.ExternalNodeID != "ext-n1" || a.State != structs.AttachmentDetaching {
		t.Errorf("called %v; attachment %+v", n.Called(), a)
	}
}

func TestUnclaimedDetach_KeepsAVolumeThatItsNodeUses(t *testing.T) {
	s, n := serverWithUnclaimedVolume(t)
	n.Answer = func(string, any, any) error {
		return structs.Errorf(structs.KindConflict, "allocation a1 still runs")
	}
	endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeDetach, detachFrom("n1"))
	endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeDetach, forceFrom("n1"))
	if attachmentTo(s, "n1") != nil {
		t.Error("a detach is recorded while the volume is mounted")
	}
}

func TestUnclaimedDetach_WaitsForTheReportOfTheNode(t *testing.T) {
	s, _ := serverWithUnclaimedVolume(t)
	s.Raft.MarkRestored(s.T, 1)
	endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach, forceFrom("n1"))
	if attachmentTo(s, "n1") != nil {
		t.Error("a detach is recorded while the volume may be mounted")
	}
}

func TestUnclaimedDetach_OfADownNodeNeedsAnOperator(t *testing.T) {
	s, _ := serverWithUnclaimedVolume(t)
	s.SetNodeDown("n1")
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach, detachFrom("n1"))
	endpointstest.WantText(t, err, "volume detach -force")
	// The node answers that it has nothing, which is no proof while it is down.
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeDetach, forceFrom("n1"))
	if attachmentTo(s, "n1") != nil {
		t.Error("a detach is recorded without an operator's word")
	}
	s.OverSocket = true
	endpointstest.Must(s, structs.CSIVolumeDetach, forceFrom("n1"))
	if attachmentTo(s, "n1") == nil {
		t.Error("no detach is recorded")
	}
}

func TestUnclaimedDetach_TakesAnUnknownNodeForThePluginsID(t *testing.T) {
	s, n := serverWithUnclaimedVolume(t)
	endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach, detachFrom("i-0abc"))
	endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeDetach, forceFrom("i-0abc"))
	if attachmentTo(s, "i-0abc") != nil {
		t.Error("a detach is recorded, and nothing proves that the node does not write")
	}

	s.OverSocket = true
	endpointstest.Must(s, structs.CSIVolumeDetach, forceFrom("i-0abc"))
	if a := attachmentTo(s, "i-0abc"); a == nil || a.ExternalNodeID != "i-0abc" {
		t.Errorf("got the attachment %+v", a)
	}
	endpointstest.Must(s, structs.CSIVolumeDetach, forceFrom("ext-n1"))
	if attachmentTo(s, "n1") == nil || len(n.Called()) != 1 {
		t.Error("the node with that ID of the plugin was not called")
	}
}

func TestUnclaimedDetach_NeedsThePluginsIDOfTheNode(t *testing.T) {
	s, _ := serverWithUnclaimedVolume(t)
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       "n2",
			SecretID: endpointstest.SecretOf("n2"),
			Name:     "n2",
		},
	})
	s.Nodes.Bind("n2", &endpointstest.FakeNode{Ended: make(chan struct{})})
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeDetach, forceFrom("n2"))
	endpointstest.WantText(t, err, "its job running there")
}

// returned is a server with the nodes n1 and n2. n2 was deleted, and is back with two volumes of before.
func returned(t *testing.T) (*endpointstest.Server, *endpointstest.FakeNode) {
	s := endpointstest.New(t)
	endpointstest.MustPropose(s, fsm.LeaseBoundSet, &cluster.LeaseBoundRequest{Longest: time.Minute})
	s.AddNode("n1", "a")
	for _, v := range []string{"stuck", "freed", "v"} {
		s.AddVolume(v)
	}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID: "n2", SecretID: endpointstest.SecretOf("n2"), Name: "n2", Status: structs.NodeReady,
		},
		Inventory: &structs.NodeInventory{
			Held: []structs.CSIHeldClaim{heldClaim("stuck", "gone"), heldClaim("freed", "gone")},
		},
	})
	n := s.AddNode("n2", "a")
	n.Calls = nil
	return s, n
}

func release(s *endpointstest.Server, volume string) *structs.CSIVolumeUnpublishRequest {
	return &structs.CSIVolumeUnpublishRequest{
		NodeID:   "n2",
		SecretID: endpointstest.SecretOf("n2"),
		Claims:   []structs.CSIClaimKey{{Namespace: "default", VolumeID: volume, AllocID: "gone"}},
	}
}

func TestHeartbeat_OfAReturnedNodeFreesWhatItHasLetGoOf(t *testing.T) {
	s, _ := returned(t)
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeUnpublish, release(s, "freed"))
	endpointstest.WantText(t, err, "was deleted and came back")
	stuck := heldClaim("stuck", "gone")
	stuck.ExternalNodeID = "ext-n2"
	reported := &structs.NodeInventory{
		Held: []structs.CSIHeldClaim{stuck},
		Left: []structs.CSIHeldClaim{heldClaim("freed", "gone")},
	}
	if !heartbeat(s, "n2", reported).Unaccounted {
		t.Fatal("the node holds a volume without a claim, and is accounted for")
	}
	for volume, waits := range map[string]bool{"stuck": true, "freed": false, "v": false} {
		why := csi.VolumeRecovering(s.Store.Read(), "default", volume)
		if (why != "") != waits {
			t.Errorf("volume %s waits: %q", volume, why)
		}
	}
	a := csi.Attachment(s.Store.Read(), "default", "freed", "n2")
	if a == nil || a.State != structs.AttachmentDetaching {
		t.Errorf("the volume that no longer waits may be attached, its row is %+v", a)
	}
	endpointstest.Must(s, structs.CSIVolumeUnpublish, release(s, "freed"))
	endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeUnpublish, release(s, "stuck"))
	written := s.Raft.Len()
	heartbeat(s, "n2", reported)
	if n := s.Raft.Len(); n != written {
		t.Errorf("a repeated report writes %d entries, want 0", n-written)
	}
}

func TestUnclaimedDetach_AReturnedNodeReportsItsOtherVolumes(t *testing.T) {
	s, n := returned(t)
	stuck := &structs.CSIVolumeDetachRequest{VolumeID: "stuck", NodeID: "n2"}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDetach, stuck)
	endpointstest.WantText(t, err, "was deleted and came back")
	endpointstest.Must(s, structs.CSIVolumeDetach, detachFrom("n2"))
	if !slices.Equal(n.Called(), []string{"ClientCSI.NodeDetachVolume"}) {
		t.Errorf("called %v", n.Called())
	}
}
