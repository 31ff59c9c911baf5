package csi_test

import (
	"maps"
	"strings"
	"testing"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// Only a plugin with MODIFY_VOLUME gets mutable parameters: with the creation, to be checked, and to change.
func TestDuty_F7_H3_H14_MutableParametersOnlyWhereAnnounced(t *testing.T) {
	wanted := map[string]string{"iops": "200"}
	for _, announced := range []bool{false, true} {
		cfg := both
		cfg.ControllerCaps = []string{"CREATE_DELETE_VOLUME"}
		if announced {
			cfg.ControllerCaps = append(cfg.ControllerCaps, "MODIFY_VOLUME")
		}
		p, c := startPlugin(t, cfg)
		p.AddVolume("v", 1)
		_, createErr := c.CreateVolume(t.Context(), &nodecalls.ClientCSICreateRequest{
			Name:              "new",
			Capabilities:      oneWriter,
			MutableParameters: wanted,
		})
		validateErr := c.ValidateVolumeCapabilities(t.Context(), &nodecalls.ClientCSIValidateRequest{
			ExternalID:        "v",
			Capabilities:      oneWriter,
			MutableParameters: wanted,
		})
		modifyErr := csi.ControllerModifyVolume(t.Context(), c, &nodecalls.ClientCSIModifyRequest{
			ExternalID:        "v",
			MutableParameters: wanted,
		})
		for rpc, err := range map[string]error{"create": createErr, "validate": validateErr, "modify": modifyErr} {
			rejected := structs.IsKind(err, structs.KindInvalid) &&
				strings.Contains(err.Error(), storage.NoModifyVolume)
			if announced && err != nil || !announced && !rejected {
				t.Errorf("%s, announced %t: %v", rpc, announced, err)
			}
		}

		sent := map[string]map[string]string{}
		for _, call := range p.Calls("CreateVolume", "ValidateVolumeCapabilities", "ControllerModifyVolume") {
			req := call.Request.(interface{ GetMutableParameters() map[string]string })
			sent[call.RPC] = req.GetMutableParameters()
		}
		if announced && len(sent) != 3 || !announced && len(sent) != 0 {
			t.Errorf("announced %t: sent %v", announced, sent)
		}
		for rpc, got := range sent {
			if !maps.Equal(got, wanted) {
				t.Errorf("%s had %v", rpc, got)
			}
		}
	}
}

// A call without a key to change, or for a volume that is gone, has an error of its kind.
func TestDuty_H16_ModifyOfNothing(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"MODIFY_VOLUME"}
	p, c := startPlugin(t, cfg)
	few := map[string]string{"iops": "1"}
	large := map[string]string{"iops": strings.Repeat("1", structs.MaxCSIMap+1)}
	for name, req := range map[string]*nodecalls.ClientCSIModifyRequest{
		"without a key":       {ExternalID: "v"},
		"without a volume ID": {MutableParameters: few},
		"a map above 4 KiB":   {ExternalID: "v", MutableParameters: large},
	} {
		err := csi.ControllerModifyVolume(t.Context(), c, req)
		if !structs.IsKind(err, structs.KindInvalid) || len(p.Calls("ControllerModifyVolume")) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := csi.ControllerModifyVolume(t.Context(), c, &nodecalls.ClientCSIModifyRequest{
		ExternalID:        "gone",
		MutableParameters: few,
	})
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("without a volume: %v", err)
	}
}
