package csi_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestDuty_H19_OddCapabilitiesAreHarmless(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"UNKNOWN", "GET_CAPACITY", "GET_CAPACITY", "NOT_INVENTED_YET"}
	cfg.NodeCaps = []string{}
	p, c := startPlugin(t, cfg)
	has, err := c.ControllerCapabilities(t.Context())
	if err != nil || *has != (structs.CSIControllerInfo{SupportsGetCapacity: true}) {
		t.Fatalf("%+v %v", has, err)
	}
	p.Answer("ControllerGetCapabilities",
		&spec.ControllerGetCapabilitiesResponse{Capabilities: []*spec.ControllerServiceCapability{
			{}, {Type: &spec.ControllerServiceCapability_Rpc{}},
			{Type: &spec.ControllerServiceCapability_Rpc{Rpc: &spec.ControllerServiceCapability_RPC{Type: 99}}}}})
	has, err = c.ControllerCapabilities(t.Context())
	if err != nil || *has != (structs.CSIControllerInfo{}) {
		t.Fatalf("%+v %v", has, err)
	}
}

// The kinds of expansion that a plugin announces are kept apart: berth takes a volume out of use for one of
// them.
func TestDuty_E5_ExpansionIsReadAsAnnounced(t *testing.T) {
	for _, tc := range []struct {
		announced       []string
		online, offline bool
	}{
		{[]string{}, false, false},
		{[]string{"ONLINE"}, true, false},
		{[]string{"OFFLINE"}, false, true},
		{[]string{"OFFLINE", "ONLINE"}, true, true},
	} {
		cfg := both
		cfg.PluginCaps = tc.announced
		_, c := startPlugin(t, cfg)
		has, err := c.PluginCapabilities(t.Context())
		if err != nil || has.ExpandOnline != tc.online || has.ExpandOffline != tc.offline {
			t.Errorf("%v: %+v %v", tc.announced, has, err)
		}
	}
}

func TestDuty_H20_FineSingleNodeModesOnlyWhereAnnounced(t *testing.T) {
	for _, tc := range []struct {
		announced bool
		mode      structs.CSIAccessMode
		want      string
	}{
		{false, structs.CSISingleNodeWriter, "SINGLE_NODE_WRITER"},
		{true, structs.CSISingleNodeWriter, "SINGLE_NODE_SINGLE_WRITER"},
		{false, structs.CSISingleNodeSingleWriter, "SINGLE_NODE_WRITER"},
		{true, structs.CSISingleNodeSingleWriter, "SINGLE_NODE_SINGLE_WRITER"},
		{true, structs.CSISingleNodeMultiWriter, "SINGLE_NODE_MULTI_WRITER"},
		{true, structs.CSISingleNodeReader, "SINGLE_NODE_READER_ONLY"},
		{true, structs.CSIMultiNodeReader, "MULTI_NODE_READER_ONLY"},
		{true, structs.CSIMultiNodeSingleWriter, "MULTI_NODE_SINGLE_WRITER"},
		{false, structs.CSIMultiNodeMultipleWriter, "MULTI_NODE_MULTI_WRITER"},
	} {
		cfg := csitest.Config{Node: true, NodeCaps: []string{}}
		if tc.announced {
			cfg.NodeCaps = []string{"SINGLE_NODE_MULTI_WRITER"}
		}
		p, c := startPlugin(t, cfg)
		u := testUse("v")
		u.AccessMode = tc.mode
		err := c.NodePublishVolume(t.Context(),
			&csi.PublishRequest{Use: u, TargetPath: filepath.Join(p.Dir(), "t")})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Calls("NodePublishVolume")[0].Get("volume_capability.access_mode.mode")
		if got != tc.want {
			t.Errorf("%s announced=%v: sent %s, want %s", tc.mode, tc.announced, got, tc.want)
		}
	}
}

// Without the capability no mode says what the job means: SINGLE_NODE_WRITER may mean one publication.
func TestDuty_K18_SeveralWritersOfANodeOnlyWhereAnnounced(t *testing.T) {
	cfg := csitest.Config{Controller: true, Node: true, ControllerCaps: []string{}, NodeCaps: []string{}}
	p, c := startPlugin(t, cfg)
	u := testUse("v")
	u.AccessMode = structs.CSISingleNodeMultiWriter
	err := c.NodePublishVolume(t.Context(),
		&csi.PublishRequest{Use: u, TargetPath: filepath.Join(p.Dir(), "t")})
	wantNoMultiWriter(t, err)
	err = c.ValidateVolumeCapabilities(t.Context(), &nodecalls.ClientCSIValidateRequest{
		ExternalID: "v",
		Capabilities: []*structs.CSIVolumeCapability{{
			AccessMode:     structs.CSISingleNodeMultiWriter,
			AttachmentMode: structs.CSIFileSystem,
		}},
	})
	wantNoMultiWriter(t, err)
}

func wantNoMultiWriter(t *testing.T, err error) {
	t.Helper()
	if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), structs.NoMultiWriter) {
		t.Errorf("got %v", err)
	}
}

func TestDuty_G3_F9_K29_UnannouncedFieldsAreNotSent(t *testing.T) {
	for _, announced := range []bool{false, true} {
		cfg := csitest.Config{
			Controller:     true,
			Node:           true,
			ControllerCaps: []string{},
			NodeCaps:       []string{},
			PluginCaps:     []string{"CONTROLLER_SERVICE"},
		}
		if announced {
			cfg.ControllerCaps, cfg.NodeCaps = []string{"PUBLISH_READONLY"}, []string{"VOLUME_MOUNT_GROUP"}
			cfg.PluginCaps = append(cfg.PluginCaps, "VOLUME_ACCESSIBILITY_CONSTRAINTS")
		}
		p, c := startPlugin(t, cfg)
		p.AddVolume("v", 1)
		req := createRequest("n")
		a, b := &structs.CSITopology{Segments: map[string]string{"z": "a"}},
			&structs.CSITopology{Segments: map[string]string{"z": "b"}}
		req.Topologies = &structs.CSITopologyRequest{
			Required:  []*structs.CSITopology{a},
			Preferred: []*structs.CSITopology{b, a},
		}
		if _, err := c.CreateVolume(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		_, err := c.ControllerPublishVolume(t.Context(), &nodecalls.ClientCSIAttachRequest{
			ExternalID:     "v",
			ExternalNodeID: "n",
			AccessMode:     structs.CSIMultiNodeReader,
			AttachmentMode: structs.CSIFileSystem,
			ReadOnly:       true,
		})
		if err != nil {
			t.Fatal(err)
		}
		u := testUse("v")
		u.MountGroup = "100"
		if err := c.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, TargetPath: filepath.Join(p.Dir(),
			"t"), ReadOnly: true}); err != nil {
			t.Fatal(err)
		}
		sent := p.Calls("CreateVolume")[0].Request.(*spec.CreateVolumeRequest).GetAccessibilityRequirements()
		if (sent != nil) != announced ||
			(announced && len(sent.GetRequisite()) != 2) {
			t.Errorf("announced=%v: sent topology %v", announced, sent)
		}
		if got := p.Calls("ControllerPublishVolume")[0].Get("readonly"); got != fmt.Sprint(announced) {
			t.Errorf("announced=%v: readonly %s", announced, got)
		}
		if got := p.Calls("NodePublishVolume")[0].Get("volume_capability.mount.volume_mount_group"); (got == "100") != announced {
			t.Errorf("announced=%v: group %q", announced, got)
		}
		if got := p.Calls("NodePublishVolume")[0].Get("readonly"); got != "true" {
			t.Errorf("NodePublishVolume.readonly is never withheld, sent %s", got)
		}
	}
}

func TestDuty_B5_F5_G13_SendsNoInvalidRequest(t *testing.T) {
	p, c := startPlugin(t, both)
	bg := context.Background()
	create := func(change func(*nodecalls.ClientCSICreateRequest)) func() error {
		return func() error {
			req := createRequest("n")
			change(req)
			_, err := c.CreateVolume(bg, req)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"B6 control character": create(func(r *nodecalls.ClientCSICreateRequest) { r.Name = "a\x00b" }),
		"F2 no name":           create(func(r *nodecalls.ClientCSICreateRequest) { r.Name = "" }),
		"B1 long name": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.Name = strings.Repeat("n", 129)
		}),
		"B7 negative": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.Capacity.RequiredBytes = -1
		}),
		"B8 range":         create(func(r *nodecalls.ClientCSICreateRequest) { r.Capacity.LimitBytes = 1 }),
		"F5 no capability": create(func(r *nodecalls.ClientCSICreateRequest) { r.Capabilities = nil }),
		"no access mode": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.Capabilities = []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem}}
		}),
		"two sources": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.CloneID, r.SnapshotID = "a", "b"
		}),
		"B1 large parameters": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.Parameters = map[string]string{"k": strings.Repeat("v", 5000)}
		}),
		"B2 large flags": create(func(r *nodecalls.ClientCSICreateRequest) {
			r.MountOptions = &structs.CSIMountOptions{MountFlags: []string{strings.Repeat("f", 5000)}}
		}),
		"G13 detach from everywhere": func() error {
			return c.ControllerUnpublishVolume(bg, &nodecalls.ClientCSIDetachRequest{ExternalID: "v"})
		},
		"relative staging": func() error {
			return c.NodeStageVolume(bg, &csi.StageRequest{
				Use:         testUse("v"),
				StagingPath: "s",
			})
		},
		"relative target": func() error { return c.NodeUnpublishVolume(bg, "v", "t") },
		"negative page": func() error {
			_, err := c.ListVolumes(bg, &nodecalls.ClientCSIListRequest{MaxEntries: -1})
			return err
		},
		"expand to nothing": func() error {
			_, err := c.ControllerExpandVolume(bg, &nodecalls.ClientCSIExpandRequest{ExternalID: "v"})
			return err
		},
	} {
		err := call()
		if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, call := range p.Calls() {
		if !strings.HasSuffix(call.RPC, "GetCapabilities") {
			t.Errorf("sent %s", call.RPC)
		}
	}
}

func TestDuty_H2_TheConfirmedSetIsCompared(t *testing.T) {
	p, c := startPlugin(t, both)
	p.AddVolume("v", 1)
	req := &nodecalls.ClientCSIValidateRequest{ExternalID: "v", Capabilities: oneWriter}
	if err := c.ValidateVolumeCapabilities(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	p.Answer("ValidateVolumeCapabilities", &spec.ValidateVolumeCapabilitiesResponse{Message: "no writers here"})
	err := c.ValidateVolumeCapabilities(t.Context(), req)
	if structs.KindOf(err) != structs.KindInvalid ||
		!strings.Contains(err.Error(), "no writers here") {
		t.Fatal(err)
	}
	p.Answer("ValidateVolumeCapabilities", &spec.ValidateVolumeCapabilitiesResponse{
		Confirmed: &spec.ValidateVolumeCapabilitiesResponse_Confirmed{}})
	err = c.ValidateVolumeCapabilities(t.Context(), req)
	if structs.KindOf(err) != structs.KindInvalid ||
		!strings.Contains(err.Error(), "SINGLE_NODE_WRITER") {
		t.Fatal(err)
	}
}
