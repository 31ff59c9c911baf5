package csi_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// withIOPS returns a request for the volume v, which exists at the plugin, with mutable parameters, "" for
// none.
func withIOPS(iops string) *structs.CSIVolumeRegisterRequest {
	v := endpointstest.Volume("v")
	v.ExternalID = "ext-v"
	if iops != "" {
		v.MutableParameters = map[string]string{"iops": iops}
	}
	return endpointstest.RegisterRequest(v)
}

// TestMutableParameters_NeedAPluginThatModifies: a new volume, a creation and a change are rejected before
// anything is recorded, by a plugin that is known to lack MODIFY_VOLUME.
func TestMutableParameters_NeedAPluginThatModifies(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	req := &structs.NodeUpdateCSIRequest{NodeID: "n1"}
	for i := range csi.InstancesByNode(s.Store.Read(), "n1") {
		i = i.Copy()
		if i.ControllerInfo != nil {
			i.ControllerInfo.SupportsModify = false
		}
		req.Upserts = append(req.Upserts, i)
	}
	s.Raft.Write(s.T, func(tx *state.WriteTx) error {
		return state.NodeUpdateCSI(tx, req)
	})

	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister, withIOPS("100"))
	endpointstest.WantText(t, err, storage.NoModifyVolume)
	created := withIOPS("100")
	created.Volumes[0].ExternalID = ""
	err = endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate, created)
	endpointstest.WantText(t, err, storage.NoModifyVolume)

	endpointstest.Must(s, structs.CSIVolumeRegister, withIOPS(""))
	err = endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeRegister, withIOPS("100"))
	endpointstest.WantText(t, err, storage.NoModifyVolume)
}

// A change has succeeded once the plugin has applied it, so the request waits for that.
func TestMutableParameters_AreAwaited(t *testing.T) {
	config := endpointstest.QuickSettings()
	config.VolumeTimeout = config.HoldTimeout
	s := endpointstest.New(t, config)
	s.AddNode("n1", "a")
	endpointstest.Must(s, structs.CSIVolumeRegister, withIOPS("100"))
	err := endpointstest.Rejected(s, structs.KindTimeout, structs.CSIVolumeCreate, withIOPS("200"))
	endpointstest.WantText(t, err, "being modified")

	endpointstest.MustPropose(s, fsm.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:         "v",
		Op:         "modify",
		Parameters: map[string]string{"iops": "200"},
	})
	endpointstest.Must(s, structs.CSIVolumeCreate, withIOPS("200"))
}
