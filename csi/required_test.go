package csi_test

import (
	"context"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// incompleteCalls returns calls that each lack one field that the specification requires, by RPC and field.
func incompleteCalls(ctx context.Context, c *csi.Client) map[string]func() error {
	noUse := csi.Use{VolumeID: "v"}
	noID := testUse("")
	return map[string]func() error{
		"DeleteVolume volume_id": func() error { return c.DeleteVolume(ctx, &nodecalls.ClientCSIDeleteRequest{}) },
		"ControllerPublishVolume volume_id": func() error {
			return attachWith(ctx, c, func(r *nodecalls.ClientCSIAttachRequest) { r.ExternalID = "" })
		},
		"ControllerPublishVolume node_id": func() error {
			return attachWith(ctx, c, func(r *nodecalls.ClientCSIAttachRequest) { r.ExternalNodeID = "" })
		},
		"ControllerPublishVolume access_mode": func() error {
			return attachWith(ctx, c, func(r *nodecalls.ClientCSIAttachRequest) { r.AccessMode = "" })
		},
		"ControllerPublishVolume access_type": func() error {
			return attachWith(ctx, c, func(r *nodecalls.ClientCSIAttachRequest) { r.AttachmentMode = "" })
		},
		"ControllerUnpublishVolume volume_id": func() error {
			return c.ControllerUnpublishVolume(ctx, &nodecalls.ClientCSIDetachRequest{ExternalNodeID: "n"})
		},
		"ValidateVolumeCapabilities volume_id": func() error {
			return c.ValidateVolumeCapabilities(ctx, &nodecalls.ClientCSIValidateRequest{Capabilities: oneWriter})
		},
		"ValidateVolumeCapabilities volume_capabilities": func() error {
			return c.ValidateVolumeCapabilities(ctx, &nodecalls.ClientCSIValidateRequest{ExternalID: "v"})
		},
		"ControllerExpandVolume volume_id": func() error {
			_, err := c.ControllerExpandVolume(ctx, &nodecalls.ClientCSIExpandRequest{
				Capacity: nodecalls.CSICapacityRange{RequiredBytes: 1}})
			return err
		},
		"ControllerModifyVolume volume_id": func() error {
			return csi.ControllerModifyVolume(ctx, c, &nodecalls.ClientCSIModifyRequest{
				MutableParameters: map[string]string{"k": "v"}})
		},
		"ControllerModifyVolume mutable_parameters": func() error {
			return csi.ControllerModifyVolume(ctx, c, &nodecalls.ClientCSIModifyRequest{ExternalID: "v"})
		},
		"ControllerGetVolume volume_id": func() error {
			_, err := csi.ControllerGetVolume(ctx, c, &nodecalls.ClientCSIGetVolumeRequest{})
			return err
		},
		"NodeStageVolume volume_id": func() error {
			return c.NodeStageVolume(ctx, &csi.StageRequest{Use: noID, StagingPath: "/s"})
		},
		"NodeStageVolume staging_target_path": func() error {
			return c.NodeStageVolume(ctx, &csi.StageRequest{Use: testUse("v")})
		},
		"NodeStageVolume volume_capability": func() error {
			return c.NodeStageVolume(ctx, &csi.StageRequest{Use: noUse, StagingPath: "/s"})
		},
		"NodeUnstageVolume volume_id":           func() error { return c.NodeUnstageVolume(ctx, "", "/s") },
		"NodeUnstageVolume staging_target_path": func() error { return c.NodeUnstageVolume(ctx, "v", "") },
		"NodePublishVolume volume_id": func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{Use: noID, TargetPath: "/t"})
		},
		"NodePublishVolume target_path": func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{Use: testUse("v")})
		},
		"NodePublishVolume volume_capability": func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{Use: noUse, TargetPath: "/t"})
		},
		"NodeUnpublishVolume volume_id":   func() error { return c.NodeUnpublishVolume(ctx, "", "/t") },
		"NodeUnpublishVolume target_path": func() error { return c.NodeUnpublishVolume(ctx, "v", "") },
		"NodeExpandVolume volume_id": func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandRequest{Use: noID, VolumePath: "/t"})
			return err
		},
		"NodeExpandVolume volume_path": func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandRequest{Use: testUse("v")})
			return err
		},
		"NodeGetVolumeStats volume_id": func() error {
			_, err := c.NodeGetVolumeStats(ctx, csi.StatsRequest{VolumePath: "/t"})
			return err
		},
		"NodeGetVolumeStats volume_path": func() error {
			_, err := c.NodeGetVolumeStats(ctx, csi.StatsRequest{VolumeID: "v"})
			return err
		},
	}
}

// attachWith calls ControllerPublishVolume with a changed request.
func attachWith(ctx context.Context, c *csi.Client, change func(*nodecalls.ClientCSIAttachRequest)) error {
	req := &nodecalls.ClientCSIAttachRequest{
		ExternalID:     "v",
		ExternalNodeID: "n",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	change(req)
	_, err := c.ControllerPublishVolume(ctx, req)
	return err
}

func TestDuty_B5_NoCallLacksARequiredField(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"MODIFY_VOLUME", "GET_VOLUME"}
	p, c := startPlugin(t, cfg)
	for name, call := range incompleteCalls(t.Context(), c) {
		err := call()
		if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	for _, call := range p.Calls() {
		if !strings.HasSuffix(call.RPC, "GetCapabilities") {
			t.Errorf("sent %s", call.RPC)
		}
	}
}

// A volume is created for all of its uses, and not only for the first one.
func TestDuty_F5_ACreationListsEveryUse(t *testing.T) {
	p, c := startPlugin(t, both)
	req := createRequest("n")
	req.Capabilities = []*structs.CSIVolumeCapability{
		{AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem},
		{AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIBlockDevice},
	}
	_, err := c.CreateVolume(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	sent := request[*spec.CreateVolumeRequest](p, "CreateVolume").GetVolumeCapabilities()
	if len(sent) != 2 ||
		sent[0].GetAccessMode().GetMode() != spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER ||
		sent[0].GetMount() == nil ||
		sent[1].GetAccessMode().GetMode() != spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY ||
		sent[1].GetBlock() == nil {
		t.Errorf("sent %v", sent)
	}
}

// zoneOf is the topology of a zone.
func zoneOf(name string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": name}}
}

// zonesOf returns the zones of topologies in their order.
func zonesOf(all []*spec.Topology) string {
	var zones []string
	for _, t := range all {
		zones = append(zones, t.GetSegments()["zone"])
	}
	return strings.Join(zones, " ")
}

// A preferred topology is also a required one, if any is required. The order of the preferred ones stays.
func TestDuty_F10_F11_ATopologyRequirementIsComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		required, preferred []*structs.CSITopology
		requisite, first    string // as they are sent
		none                bool
	}{
		"nothing":  {none: true},
		"required": {required: []*structs.CSITopology{zoneOf("a"), zoneOf("b")}, requisite: "a b"},
		"preferred": {
			preferred: []*structs.CSITopology{zoneOf("b"), zoneOf("a")},
			first:     "b a",
		},
		"both": {
			required:  []*structs.CSITopology{zoneOf("a"), zoneOf("b")},
			preferred: []*structs.CSITopology{zoneOf("c"), zoneOf("b")},
			requisite: "a b c",
			first:     "c b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := csitest.Config{
				Controller: true,
				PluginCaps: []string{"CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"},
			}
			p, c := startPlugin(t, cfg)
			req := createRequest("n")
			req.Topologies = &structs.CSITopologyRequest{Required: tc.required, Preferred: tc.preferred}
			_, err := c.CreateVolume(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			sent := request[*spec.CreateVolumeRequest](p, "CreateVolume").GetAccessibilityRequirements()
			if (sent == nil) != tc.none || zonesOf(sent.GetRequisite()) != tc.requisite ||
				zonesOf(sent.GetPreferred()) != tc.first {
				t.Errorf("sent %v", sent)
			}
		})
	}
}

// The specification recommends 128 bytes to plugins, and allows 256.
func TestDuty_B3_ANodeIDOf256BytesIsTaken(t *testing.T) {
	long := strings.Repeat("n", 256)
	cfg := both
	cfg.NodeID = long
	p, c := startPlugin(t, cfg)
	p.AddVolume("v", 1)
	info, err := c.NodeInfo(t.Context())
	if err != nil || info.ID != long {
		t.Fatalf("%+v, %v", info, err)
	}
	err = attachWith(t.Context(), c, func(r *nodecalls.ClientCSIAttachRequest) { r.ExternalNodeID = long })
	if err != nil || p.Calls("ControllerPublishVolume")[0].Get("node_id") != long {
		t.Errorf("attached with %v, %v", p.Calls("ControllerPublishVolume"), err)
	}
}
