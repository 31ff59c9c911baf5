package csi_test

import (
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// inMode returns a volume with the capability of one access mode.
func inMode(mode structs.CSIAccessMode) *structs.CSIVolume {
	v := testVolume("v")
	v.ExternalID = "ext-v"
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     mode,
		AttachmentMode: structs.CSIFileSystem,
	}}
	return v
}

func TestVolumeModes_NeedThePluginsCapability(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	several := structs.CSISingleNodeMultiWriter
	err := rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister, registerRequest(inMode(several)))
	wantText(t, err, "CSI plugin pl "+structs.NoMultiWriter)
	created := inMode(several)
	created.ExternalID = ""
	err = rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate, registerRequest(created))
	wantText(t, err, "CSI plugin pl "+structs.NoMultiWriter)

	// A single writer needs no capability: such a plugin gets SINGLE_NODE_WRITER.
	must(s, structs.CSIVolumeRegister, registerRequest(inMode(structs.CSISingleNodeSingleWriter)))
}

func TestVolumeModes_AreCheckedByTheClaimOfAPluginThatIsKnownLater(t *testing.T) {
	s := newServer(t)
	s.AddNode("n1", "a")
	setMultiWriter(t, s, true)
	must(s, structs.CSIVolumeRegister, registerRequest(inMode(structs.CSISingleNodeMultiWriter)))
	s.AddAlloc("a1", "n1")
	claim := &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: secretOf("n1"),
		Claims: []*structs.CSIClaim{{
			VolumeID:       "v",
			AllocID:        "a1",
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeMultiWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	}
	setMultiWriter(t, s, false)
	wantText(t, rejected(s, structs.KindPrecondition, structs.CSIVolumeClaim, claim), structs.NoMultiWriter)
	setMultiWriter(t, s, true)
	must(s, structs.CSIVolumeClaim, claim)
}

// setMultiWriter makes both halves of the plugin on n1 announce SINGLE_NODE_MULTI_WRITER, or not.
func setMultiWriter(t *testing.T, s *server, has bool) {
	t.Helper()
	req := &structs.NodeUpdateCSIRequest{NodeID: "n1"}
	for i := range csi.InstancesByNode(s.Store.Read(), "n1") {
		i = i.Copy()
		if i.ControllerInfo != nil {
			i.ControllerInfo.SupportsSingleNodeMultiWriter = has
		} else {
			i.NodeInfo.MultiWriter = has
		}
		req.Upserts = append(req.Upserts, i)
	}
	err := s.Store.Write(s.Store.Index()+1, func(tx *state.WriteTx) error {
		return state.NodeUpdateCSI(tx, req)
	})
	if err != nil {
		t.Fatal(err)
	}
}
