package endpoints

import (
	"slices"
	"strings"
	"testing"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// restored marks the state as one that was restored.
func (s *server) restored() {
	s.t.Helper()
	s.raft.mu.Lock()
	defer s.raft.mu.Unlock()
	s.raft.index++
	err := s.store.Write(s.raft.index, func(tx *state.WriteTx) error {
		state.Recover(tx, state.New().Read(), 1)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) heartbeat(node string, said *structs.NodeInventory) *structs.NodeHeartbeatResponse {
	s.t.Helper()
	return must(s, structs.NodeHeartbeat, &structs.NodeHeartbeatRequest{NodeID: node, SecretID: secretOf(node),
		Status: structs.NodeReady, Inventory: said})
}

func held(volume, alloc string) structs.CSIHeldClaim {
	return structs.CSIHeldClaim{CSIClaimKey: structs.CSIClaimKey{Namespace: "default", VolumeID: volume,
		AllocID: alloc}}
}

// A volume that a node holds, or has released since the restore, may be attached to it without a row.
func TestHeartbeat_RecordsTheAttachmentsOfAnUnaccountedNode(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	for _, v := range []string{"held", "left", "own"} {
		s.addVolume(v)
	}
	s.addAlloc("a1", "n1")
	s.claim("own", "a1", "n1")
	s.restored()
	unknown := held("unknown", "gone")
	unknown.PluginID, unknown.ExternalVolumeID, unknown.ExternalNodeID = "pl", "ext-unknown", "former-id"
	said := &structs.NodeInventory{Held: []structs.CSIHeldClaim{held("own", "a1"),
		held("held", "gone"), unknown},
		Left: []structs.CSIHeldClaim{held("left", "gone"), held("held", "gone")}}
	if !s.heartbeat("n1", nil).Unaccounted || !s.heartbeat("n1", said).Unaccounted {
		t.Error("it holds what is not its own, and is accounted for")
	}
	attached := func(volume string) *structs.CSIAttachment {
		return state.Attachment(s.store.Read(), "default", volume, "n1")
	}
	for volume, external := range map[string]string{"held": "ext-n1", "left": "ext-n1", "unknown": "former-id"} {
		if a := attached(volume); a == nil || a.State != structs.AttachmentDetaching ||
			a.ExternalNodeID != external || a.ExternalVolumeID != "ext-"+volume {
			t.Errorf("%s: %+v", volume, a)
		}
	}
	if a := attached("held"); a.Secrets["password"] != "hunter2" {
		t.Error("the detach would lack the secrets of the volume")
	}
	if a := attached("own"); a.State != structs.AttachmentAttaching || a.Found {
		t.Errorf("its own: %+v", a)
	}
	written := s.raft.written()
	s.heartbeat("n1", said)
	if n := s.raft.written(); n != written {
		t.Errorf("saying it again writes %d entries", n-written)
	}
	if s.heartbeat("n1", &structs.NodeInventory{Held: said.Held[:1], Left: said.Left}).Unaccounted {
		t.Error("it holds only its own, and is not accounted for")
	}
}

// A node deletes its record of a volume once the servers know of the release.
func TestRelease_WaitsForTheReportOfAnUnaccountedNode(t *testing.T) {
	s := newServer(t)
	s.addNode("n1", "a")
	s.restored()
	release := &structs.CSIVolumeUnpublishRequest{NodeID: "n1", SecretID: secretOf("n1"),
		Claims: []structs.CSIClaimKey{{VolumeID: "v", AllocID: "gone"}}}
	if err := refused(s, structs.KindUnavailable, structs.CSIVolumeUnpublish,
		release); !strings.Contains(err.Error(), "report its volumes first") {
		t.Errorf("does not say why: %v", err)
	}
	s.heartbeat("n1", &structs.NodeInventory{})
	must(s, structs.CSIVolumeUnpublish, release)
}

func TestDetach_CallsTheControllerWithoutARow(t *testing.T) {
	setUp := func(t *testing.T) (*server, *fakeNode) {
		s := newServer(t)
		n := s.addNode("n1", "a")
		s.addVolume("v")
		n.calls = nil
		return s, n
	}
	detach := func(node string) *structs.CSIVolumeDetachRequest {
		return &structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: node}
	}
	force := func(node string) *structs.CSIVolumeDetachRequest {
		return &structs.CSIVolumeDetachRequest{VolumeID: "v", NodeID: node, Force: true, Reason: "it is off"}
	}
	attached := func(s *server, node string) *structs.CSIAttachment {
		return state.Attachment(s.store.Read(), "default", "v", node)
	}
	t.Run("a node that is up is asked first", func(t *testing.T) {
		s, n := setUp(t)
		must(s, structs.CSIVolumeDetach, detach("n1"))
		if a := attached(s, "n1"); !slices.Equal(n.called(), []string{"ClientCSI.NodeDetachVolume"}) || a == nil ||
			a.ExternalNodeID != "ext-n1" || a.State != structs.AttachmentDetaching {
			t.Errorf("asked %v; %+v", n.called(), a)
		}
	})
	t.Run("a node that still uses it keeps it, force or not", func(t *testing.T) {
		s, n := setUp(t)
		n.answer = func(string, any, any) error {
			return structs.Errorf(structs.KindConflict,
				"allocation a1 still runs")
		}
		refused(s, structs.KindConflict, structs.CSIVolumeDetach, detach("n1"))
		if refused(s, structs.KindConflict, structs.CSIVolumeDetach, force("n1")); attached(s, "n1") != nil {
			t.Error("it is to be detached while it is mounted")
		}
	})
	t.Run("a node that has not reported is waited for", func(t *testing.T) {
		s, _ := setUp(t)
		s.restored()
		if refused(s, structs.KindUnavailable, structs.CSIVolumeDetach, force("n1")); attached(s, "n1") != nil {
			t.Error("it is to be detached while it may be mounted")
		}
	})
	t.Run("for a node that is down an operator vouches", func(t *testing.T) {
		s, _ := setUp(t)
		proposed(s, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
		if err := refused(s, structs.KindUnavailable, structs.CSIVolumeDetach,
			detach("n1")); !strings.Contains(err.Error(), "volume detach -force") {
			t.Errorf("does not say how: %v", err)
		}
		if must(s, structs.CSIVolumeDetach, force("n1")); attached(s, "n1") == nil {
			t.Error("nobody asks the controller")
		}
	})
	t.Run("a node that nobody knows is named as the plugin does", func(t *testing.T) {
		s, n := setUp(t)
		refused(s, structs.KindUnavailable, structs.CSIVolumeDetach, detach("i-0abc"))
		must(s, structs.CSIVolumeDetach, force("i-0abc"))
		if a := attached(s, "i-0abc"); a == nil || a.ExternalNodeID != "i-0abc" {
			t.Errorf("%+v", a)
		}
		must(s, structs.CSIVolumeDetach, force("ext-n1"))
		if attached(s, "n1") == nil || len(n.called()) != 1 {
			t.Error("a node that is known by that name was not asked")
		}
	})
	t.Run("a node whose ID the plugin has not told", func(t *testing.T) {
		s, _ := setUp(t)
		must(s, structs.NodeRegister,
			&structs.NodeRegisterRequest{Node: &structs.Node{ID: "n2", SecretID: secretOf("n2"), Name: "n2"}})
		s.nodes.Bind("n2", &fakeNode{done: make(chan struct{})})
		if err := refused(s, structs.KindPrecondition, structs.CSIVolumeDetach,
			force("n2")); !strings.Contains(err.Error(), "its job running there") {
			t.Errorf("does not say why: %v", err)
		}
	})
}
