package csi_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// inMode returns a volume with the capability of one access mode.
func inMode(mode structs.CSIAccessMode) *structs.CSIVolume {
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	v.RequestedCapabilities = []*structs.CSIVolumeCapability{{
		AccessMode:     mode,
		AttachmentMode: structs.CSIFileSystem,
	}}
	return v
}

func TestVolumeModes_NeedThePluginsCapability(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	several := structs.CSISingleNodeMultiWriter
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(inMode(several)))
	endpointstest.WantText(t, err, "CSI plugin pl "+structs.NoMultiWriter)
	created := inMode(several)
	created.ExternalID = ""
	err = endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		endpointstest.RegisterRequest(created))
	endpointstest.WantText(t, err, "CSI plugin pl "+structs.NoMultiWriter)

	// A single writer needs no capability: such a plugin gets SINGLE_NODE_WRITER.
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(inMode(structs.CSISingleNodeSingleWriter)))
}

func TestVolumeModes_AreCheckedByTheClaimOfAPluginThatIsKnownLater(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	setMultiWriter(t, s, true)
	endpointstest.Must(s, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(inMode(structs.CSISingleNodeMultiWriter)))
	s.AddAlloc("a1", "n1")
	claim := &structs.CSIVolumeClaimRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
		Claims: []*structs.CSIClaim{{
			VolumeID:       "v",
			AllocID:        "a1",
			Mode:           structs.ClaimWrite,
			AccessMode:     structs.CSISingleNodeMultiWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	}
	setMultiWriter(t, s, false)
	endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeClaim,
		claim), structs.NoMultiWriter)
	setMultiWriter(t, s, true)
	endpointstest.Must(s, structs.CSIVolumeClaim, claim)
}

// setMultiWriter makes both halves of the plugin on n1 announce SINGLE_NODE_MULTI_WRITER, or not.
func setMultiWriter(t *testing.T, s *endpointstest.Server, has bool) {
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
	s.Raft.Write(s.T, func(tx *state.WriteTx) error {
		return state.NodeUpdateCSI(tx, req)
	})
}
