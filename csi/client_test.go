package csi_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg csitest.Config, opts ...csi.Option) (*csitest.Plugin, *csi.Client) {
	t.Helper()
	p := csitest.Start(t, cfg)
	c, err := csi.Dial(t.Context(), p.Endpoint(), hclog.NewNullLogger(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

var both = csitest.Config{Controller: true, Node: true}

var oneWriter = []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem, AccessMode: structs.CSISingleNodeWriter}}

func createRequest(name string) *structs.ClientCSICreateRequest {
	return &structs.ClientCSICreateRequest{Name: name, Capabilities: oneWriter,
		Capacity: structs.CSICapacityRange{RequiredBytes: 4096}}
}

func use(id string) csi.Use {
	return csi.Use{VolumeID: id, AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}
}

// The whole life of a volume, as the plugin sees it and as the client tells it.
func TestLifeOfAVolume(t *testing.T) {
	cfg := both
	cfg.Topology, cfg.MaxVolumes = map[string]string{"zone": "a"}, 7
	p, c := start(t, cfg)
	ctx := t.Context()

	if ready, err := c.Probe(ctx); err != nil || !ready {
		t.Fatalf("probe: %v %v", ready, err)
	}
	info, err := c.PluginInfo(ctx)
	if err != nil || info.Name != "test.csi.berth" || info.Version != "1.0" {
		t.Fatalf("info: %+v %v", info, err)
	}
	services, err := c.PluginCapabilities(ctx)
	if err != nil || !services.Controller || !services.Topology || !services.ExpandOnline || services.ExpandOffline {
		t.Fatalf("services: %+v %v", services, err)
	}
	node, err := c.NodeInfo(ctx)
	if err != nil || node.ID != "node-1" || node.MaxVolumes != 7 || node.AccessibleTopology.Segments["zone"] != "a" || !node.RequiresNodeStageVolume {
		t.Fatalf("node: %+v %v", node, err)
	}
	v, err := c.CreateVolume(ctx, createRequest("data"))
	if err != nil || v.ExternalID != "vol-1" || v.Capacity != 4096 || len(v.Topologies) != 1 {
		t.Fatalf("create: %+v %v", v, err)
	}
	again, err := c.CreateVolume(ctx, createRequest("data"))
	if err != nil || again.ExternalID != v.ExternalID {
		t.Fatalf("create again: %+v %v", again, err)
	}
	at, err := c.ControllerPublishVolume(ctx, &structs.ClientCSIAttachRequest{ExternalID: v.ExternalID, ExternalNodeID: node.ID,
		AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem})
	if err != nil || at.PublishContext["device"] != "/dev/vol-1" {
		t.Fatalf("attach: %v", err)
	}
	staging, target := filepath.Join(p.Dir(), "s"), filepath.Join(p.Dir(), "t")
	steps := []struct {
		name string
		do   func() error
	}{
		{"stage", func() error {
			return c.NodeStageVolume(ctx, &csi.StageRequest{Use: use("vol-1"), StagingPath: staging})
		}},
		{"publish", func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{Use: use("vol-1"), StagingPath: staging, TargetPath: target})
		}},
		{"stats", func() error {
			s, err := c.NodeGetVolumeStats(ctx, &csi.StatsRequest{VolumeID: "vol-1", VolumePath: target})
			if err == nil && (s.Bytes == nil || s.Bytes.Total != 4096 || s.Inodes != nil) {
				err = fmt.Errorf("stats %+v", s)
			}
			return err
		}},
		{"expand", func() error {
			r, err := c.ControllerExpandVolume(ctx, &structs.ClientCSIExpandRequest{ExternalID: "vol-1",
				Capacity: structs.CSICapacityRange{RequiredBytes: 8192}, Capability: oneWriter[0]})
			if err == nil && (r.Capacity != 8192 || !r.NodeExpansionRequired) {
				err = fmt.Errorf("expand %+v", r)
			}
			return err
		}},
		{"node expand", func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandRequest{VolumeID: "vol-1", VolumePath: target,
				AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem})
			return err
		}},
		{"list", func() error {
			l, err := c.ListVolumes(ctx, &structs.ClientCSIListRequest{})
			if err == nil && (len(l.Volumes) != 1 || l.Volumes[0].PublishedExternalNodeIDs[0] != "node-1") {
				err = fmt.Errorf("list %+v", l)
			}
			return err
		}},
		{"unpublish", func() error { return c.NodeUnpublishVolume(ctx, "vol-1", target) }},
		{"unstage", func() error { return c.NodeUnstageVolume(ctx, "vol-1", staging) }},
		{"detach", func() error {
			return c.ControllerUnpublishVolume(ctx, &structs.ClientCSIDetachRequest{ExternalID: "vol-1", ExternalNodeID: node.ID})
		}},
		{"delete", func() error { return c.DeleteVolume(ctx, &structs.ClientCSIDeleteRequest{ExternalID: "vol-1"}) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	if len(p.Volumes()) != 0 {
		t.Fatalf("left: %v", p.Volumes())
	}
}

func TestSnapshotsAndCapacity(t *testing.T) {
	p, c := start(t, both)
	p.AddVolume("v", 4096)
	ctx := t.Context()
	s, err := c.CreateSnapshot(ctx, &csi.SnapshotRequest{SourceID: "v", Name: "n"})
	if err != nil || !s.Ready || s.SourceID != "v" || s.CreateTime.IsZero() {
		t.Fatalf("%+v %v", s, err)
	}
	list, next, err := c.ListSnapshots(ctx, &csi.SnapshotListRequest{SourceID: "v"})
	if err != nil || next != "" || len(list) != 1 || list[0].ID != s.ID {
		t.Fatalf("%+v %q %v", list, next, err)
	}
	if err := c.DeleteSnapshot(ctx, s.ID, nil); err != nil {
		t.Fatal(err)
	}
	room, err := c.GetCapacity(ctx, &csi.CapacityRequest{Capabilities: oneWriter})
	if err != nil || room.Available == 0 || room.MaxVolume == 0 {
		t.Fatalf("%+v %v", room, err)
	}
}

func TestDuty_C8_C15_C16_everyCodeHasAKindAndAFinality(t *testing.T) {
	p, c := start(t, both, csi.WithName("ebs"))
	for _, tc := range []struct {
		code  string
		kind  structs.Kind
		final bool
	}{
		{"Canceled", structs.KindTimeout, false},
		{"Unknown", structs.KindInternal, false},
		{"InvalidArgument", structs.KindInvalid, true},
		{"DeadlineExceeded", structs.KindTimeout, false},
		{"NotFound", structs.KindNotFound, true},
		{"AlreadyExists", structs.KindConflict, true},
		{"PermissionDenied", structs.KindDenied, true},
		{"ResourceExhausted", structs.KindUnavailable, false},
		{"FailedPrecondition", structs.KindPrecondition, true},
		{"Aborted", structs.KindUnavailable, false},
		{"OutOfRange", structs.KindInvalid, true},
		{"Unimplemented", structs.KindPrecondition, true},
		{"Internal", structs.KindInternal, true},
		{"Unavailable", structs.KindUnavailable, false},
		{"DataLoss", structs.KindInternal, true},
		{"Unauthenticated", structs.KindDenied, true},
	} {
		t.Run(tc.code, func(t *testing.T) {
			p.Fail("DeleteVolume", csitest.Error(tc.code, "the disk says no"))
			err := c.DeleteVolume(t.Context(), &structs.ClientCSIDeleteRequest{ExternalID: "v"})
			wrapped := fmt.Errorf("deleting volume v: %w", err)
			if structs.KindOf(wrapped) != tc.kind || csi.Code(wrapped) != tc.code || csi.Final(wrapped) != tc.final {
				t.Fatalf("%v: kind %s code %s final %v", err, structs.KindOf(wrapped), csi.Code(wrapped), csi.Final(wrapped))
			}
			if want := `plugin "ebs": DeleteVolume: ` + tc.code + `: the disk says no`; err.Error() != want {
				t.Fatalf("text %q, want %q", err, want)
			}
		})
	}
	plain := structs.Errorf(structs.KindUnavailable, "no plugin")
	if csi.Code(plain) != "" || csi.Final(plain) || !csi.Final(nil) || csi.Code(nil) != "" {
		t.Fatal("errors from elsewhere are judged by their kind")
	}
}

func TestDuty_D3_C14_noSecretLeavesInAnError(t *testing.T) {
	p, c := start(t, both)
	p.Fail("CreateVolume", csitest.Error("Internal", "login as admin with hunter2hunter2 failed,\x1b[31m hunter2 is wrong\n"))
	req := createRequest("n")
	req.Secrets = structs.Secrets{"password": "hunter2", "old": "hunter2hunter2", "x": "a"}
	_, err := c.CreateVolume(t.Context(), req)
	if strings.Contains(err.Error(), "hunter2") || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Fatalf("%q", err)
	}
	if !strings.Contains(err.Error(), "with [redacted] failed") {
		t.Fatalf("%q", err)
	}
	p.Fail("Probe", csitest.Error("Internal", "%s", strings.Repeat("long ", 10000)))
	if _, err := c.Probe(t.Context()); len(err.Error()) > 4096 {
		t.Fatalf("%d bytes of error", len(err.Error()))
	}
}

func TestNonsenseIsAnErrorThatNamesPluginAndField(t *testing.T) {
	long := strings.Repeat("x", 2000)
	volume := func(v *spec.Volume) proto.Message { return &spec.CreateVolumeResponse{Volume: v} }
	create := func(c *csi.Client) error {
		_, err := c.CreateVolume(context.Background(), createRequest("n"))
		return err
	}
	list := func(c *csi.Client) error {
		_, err := c.ListVolumes(context.Background(), &structs.ClientCSIListRequest{StartingToken: "5"})
		return err
	}
	info := func(c *csi.Client) error { _, err := c.PluginInfo(context.Background()); return err }
	node := func(c *csi.Client) error { _, err := c.NodeInfo(context.Background()); return err }
	snap := func(c *csi.Client) error {
		_, err := c.CreateSnapshot(context.Background(), &csi.SnapshotRequest{SourceID: "v", Name: "n"})
		return err
	}
	room := func(c *csi.Client) error {
		_, err := c.GetCapacity(context.Background(), &csi.CapacityRequest{})
		return err
	}
	stats := func(c *csi.Client) error {
		_, err := c.NodeGetVolumeStats(context.Background(), &csi.StatsRequest{VolumeID: "v", VolumePath: "/v"})
		return err
	}
	expand := func(c *csi.Client) error {
		_, err := c.ControllerExpandVolume(context.Background(), &structs.ClientCSIExpandRequest{ExternalID: "v",
			Capacity: structs.CSICapacityRange{RequiredBytes: 4096}})
		return err
	}
	for _, tc := range []struct {
		rpc   string
		resp  proto.Message
		call  func(*csi.Client) error
		field string
	}{
		{"CreateVolume", volume(nil), create, "volume: is missing"},
		{"CreateVolume", volume(&spec.Volume{CapacityBytes: 4096}), create, "volume.volume_id: is empty"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: long}), create, "volume.volume_id: is 2000 bytes"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: "v", CapacityBytes: -1}), create, "volume.capacity_bytes: is negative"},
		{"CreateVolume", volume(&spec.Volume{VolumeId: "v", CapacityBytes: 1}), create, "volume.capacity_bytes: of 1 is smaller than the 4096"},
		{"ListVolumes", &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{}}}, list, "entries[0].volume: is missing"},
		{"ListVolumes", &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{Volume: &spec.Volume{}}}}, list, "entries[0].volume.volume_id: is empty"},
		{"ListVolumes", &spec.ListVolumesResponse{NextToken: "5"}, list, "next_token"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{}, info, "name: is empty"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: "a b", VendorVersion: "1"}, info, "name:"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: long, VendorVersion: "1"}, info, "name: is 2000 bytes"},
		{"GetPluginInfo", &spec.GetPluginInfoResponse{Name: "a"}, info, "vendor_version: is empty"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{}, node, "node_id: is empty"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: long}, node, "node_id: is 2000 bytes"},
		{"NodeGetInfo", &spec.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: -3}, node, "max_volumes_per_node: is negative"},
		{"CreateSnapshot", &spec.CreateSnapshotResponse{}, snap, "snapshot: is missing"},
		{"CreateSnapshot", &spec.CreateSnapshotResponse{Snapshot: &spec.Snapshot{SnapshotId: "s", SourceVolumeId: "v"}}, snap, "snapshot.creation_time: is missing"},
		{"GetCapacity", &spec.GetCapacityResponse{AvailableCapacity: -1}, room, "available_capacity: is negative"},
		{"NodeGetVolumeStats", &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{{Used: -1}}}, stats, "usage.used: is negative"},
		{"ControllerExpandVolume", &spec.ControllerExpandVolumeResponse{CapacityBytes: 5}, expand, "capacity_bytes: of 5 is smaller"},
	} {
		t.Run(tc.rpc+" "+tc.field, func(t *testing.T) {
			p, c := start(t, both, csi.WithName("ebs"))
			p.Answer(tc.rpc, tc.resp)
			err := tc.call(c)
			if err == nil || !strings.Contains(err.Error(), `plugin "ebs": `+tc.rpc+`: the answer's `+tc.field) {
				t.Fatalf("%v", err)
			}
			if structs.KindOf(err) != structs.KindInternal || csi.Final(err) || csi.Code(err) != "" {
				t.Fatalf("kind %s final %v code %q", structs.KindOf(err), csi.Final(err), csi.Code(err))
			}
		})
	}
}

func TestDuty_F14_aVolumeOfTheWrongSizeComesBesideTheError(t *testing.T) {
	p, c := start(t, both)
	p.Answer("CreateVolume", &spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "small", CapacityBytes: 1}})
	resp, err := c.CreateVolume(t.Context(), createRequest("n"))
	if err == nil || resp == nil || resp.ExternalID != "small" {
		t.Fatalf("%+v %v", resp, err)
	}
	p.Answer("CreateVolume", &spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "nfs"}})
	if resp, err = c.CreateVolume(t.Context(), createRequest("n")); err != nil || resp.Capacity != 0 {
		t.Fatalf("a size of 0 is unknown, not zero: %v", err)
	}
}

func TestDuty_H19_oddCapabilitiesAreHarmless(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"UNKNOWN", "GET_CAPACITY", "GET_CAPACITY", "NOT_INVENTED_YET"}
	cfg.NodeCaps = []string{}
	p, c := start(t, cfg)
	has, err := c.ControllerCapabilities(t.Context())
	if err != nil || *has != (structs.CSIControllerInfo{SupportsGetCapacity: true}) {
		t.Fatalf("%+v %v", has, err)
	}
	p.Answer("ControllerGetCapabilities", &spec.ControllerGetCapabilitiesResponse{Capabilities: []*spec.ControllerServiceCapability{
		{}, {Type: &spec.ControllerServiceCapability_Rpc{}}, {Type: &spec.ControllerServiceCapability_Rpc{Rpc: &spec.ControllerServiceCapability_RPC{Type: 99}}}}})
	if has, err = c.ControllerCapabilities(t.Context()); err != nil || *has != (structs.CSIControllerInfo{}) {
		t.Fatalf("%+v %v", has, err)
	}
}

func TestDuty_H20_fineSingleNodeModesOnlyWhereAnnounced(t *testing.T) {
	for _, tc := range []struct {
		announced bool
		mode      structs.CSIAccessMode
		want      string
	}{
		{false, structs.CSISingleNodeWriter, "SINGLE_NODE_WRITER"},
		{true, structs.CSISingleNodeWriter, "SINGLE_NODE_SINGLE_WRITER"},
		{true, structs.CSISingleNodeReader, "SINGLE_NODE_READER_ONLY"},
		{true, structs.CSIMultiNodeReader, "MULTI_NODE_READER_ONLY"},
		{true, structs.CSIMultiNodeSingleWriter, "MULTI_NODE_SINGLE_WRITER"},
		{false, structs.CSIMultiNodeMultipleWriter, "MULTI_NODE_MULTI_WRITER"},
	} {
		cfg := csitest.Config{Node: true, NodeCaps: []string{}}
		if tc.announced {
			cfg.NodeCaps = []string{"SINGLE_NODE_MULTI_WRITER"}
		}
		p, c := start(t, cfg)
		u := use("v")
		u.AccessMode = tc.mode
		err := c.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, TargetPath: filepath.Join(p.Dir(), "t")})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Calls("NodePublishVolume")[0].Get("volume_capability.access_mode.mode"); got != tc.want {
			t.Errorf("%s announced=%v: sent %s, want %s", tc.mode, tc.announced, got, tc.want)
		}
	}
}

func TestDuty_G3_F9_K29_whatIsNotAnnouncedIsNotSent(t *testing.T) {
	for _, announced := range []bool{false, true} {
		cfg := csitest.Config{Controller: true, Node: true, ControllerCaps: []string{}, NodeCaps: []string{}, PluginCaps: []string{"CONTROLLER_SERVICE"}}
		if announced {
			cfg.ControllerCaps, cfg.NodeCaps = []string{"PUBLISH_READONLY"}, []string{"VOLUME_MOUNT_GROUP"}
			cfg.PluginCaps = append(cfg.PluginCaps, "VOLUME_ACCESSIBILITY_CONSTRAINTS")
		}
		p, c := start(t, cfg)
		p.AddVolume("v", 1)
		req := createRequest("n")
		a, b := &structs.CSITopology{Segments: map[string]string{"z": "a"}}, &structs.CSITopology{Segments: map[string]string{"z": "b"}}
		req.Topologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{a}, Preferred: []*structs.CSITopology{b, a}}
		if _, err := c.CreateVolume(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		_, err := c.ControllerPublishVolume(t.Context(), &structs.ClientCSIAttachRequest{ExternalID: "v", ExternalNodeID: "n",
			AccessMode: structs.CSIMultiNodeReader, AttachmentMode: structs.CSIFileSystem, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		u := use("v")
		u.MountGroup = "100"
		if err := c.NodePublishVolume(t.Context(), &csi.PublishRequest{Use: u, TargetPath: filepath.Join(p.Dir(), "t"), ReadOnly: true}); err != nil {
			t.Fatal(err)
		}
		sent := p.Calls("CreateVolume")[0].Request.(*spec.CreateVolumeRequest).GetAccessibilityRequirements()
		if (sent != nil) != announced || (announced && len(sent.GetRequisite()) != 2) {
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

func TestBadRequestsAreNotSent(t *testing.T) {
	p, c := start(t, both)
	bg := context.Background()
	create := func(change func(*structs.ClientCSICreateRequest)) func() error {
		return func() error {
			req := createRequest("n")
			change(req)
			_, err := c.CreateVolume(bg, req)
			return err
		}
	}
	for name, call := range map[string]func() error{
		"B6 control character": create(func(r *structs.ClientCSICreateRequest) { r.Name = "a\x00b" }),
		"F2 no name":           create(func(r *structs.ClientCSICreateRequest) { r.Name = "" }),
		"B1 long name":         create(func(r *structs.ClientCSICreateRequest) { r.Name = strings.Repeat("n", 129) }),
		"B7 negative":          create(func(r *structs.ClientCSICreateRequest) { r.Capacity.RequiredBytes = -1 }),
		"B8 range":             create(func(r *structs.ClientCSICreateRequest) { r.Capacity.LimitBytes = 1 }),
		"F5 no capability":     create(func(r *structs.ClientCSICreateRequest) { r.Capabilities = nil }),
		"no access mode": create(func(r *structs.ClientCSICreateRequest) {
			r.Capabilities = []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem}}
		}),
		"two sources": create(func(r *structs.ClientCSICreateRequest) { r.CloneID, r.SnapshotID = "a", "b" }),
		"B1 large parameters": create(func(r *structs.ClientCSICreateRequest) {
			r.Parameters = map[string]string{"k": strings.Repeat("v", 5000)}
		}),
		"B2 large flags": create(func(r *structs.ClientCSICreateRequest) {
			r.MountOptions = &structs.CSIMountOptions{MountFlags: []string{strings.Repeat("f", 5000)}}
		}),
		"G13 detach from everywhere": func() error {
			return c.ControllerUnpublishVolume(bg, &structs.ClientCSIDetachRequest{ExternalID: "v"})
		},
		"relative staging": func() error { return c.NodeStageVolume(bg, &csi.StageRequest{Use: use("v"), StagingPath: "s"}) },
		"relative target":  func() error { return c.NodeUnpublishVolume(bg, "v", "t") },
		"negative page": func() error {
			_, err := c.ListVolumes(bg, &structs.ClientCSIListRequest{MaxEntries: -1})
			return err
		},
		"expand to nothing": func() error {
			_, err := c.ControllerExpandVolume(bg, &structs.ClientCSIExpandRequest{ExternalID: "v"})
			return err
		},
	} {
		if err := call(); structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, call := range p.Calls() {
		if !strings.HasSuffix(call.RPC, "GetCapabilities") {
			t.Errorf("sent %s", call.RPC)
		}
	}
}

func TestDuty_H2_whatIsConfirmedIsCompared(t *testing.T) {
	p, c := start(t, both)
	p.AddVolume("v", 1)
	req := &structs.ClientCSIValidateRequest{ExternalID: "v", Capabilities: oneWriter}
	if err := c.ValidateVolumeCapabilities(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	p.Answer("ValidateVolumeCapabilities", &spec.ValidateVolumeCapabilitiesResponse{Message: "no writers here"})
	err := c.ValidateVolumeCapabilities(t.Context(), req)
	if structs.KindOf(err) != structs.KindInvalid || !strings.Contains(err.Error(), "no writers here") {
		t.Fatal(err)
	}
	p.Answer("ValidateVolumeCapabilities", &spec.ValidateVolumeCapabilitiesResponse{
		Confirmed: &spec.ValidateVolumeCapabilitiesResponse_Confirmed{}})
	err = c.ValidateVolumeCapabilities(t.Context(), req)
	if structs.KindOf(err) != structs.KindInvalid || !strings.Contains(err.Error(), "SINGLE_NODE_WRITER") {
		t.Fatal(err)
	}
}

func TestDuty_E7_notReadyIsNoError(t *testing.T) {
	p, c := start(t, both)
	p.Answer("Probe", &spec.ProbeResponse{})
	if ready, err := c.Probe(t.Context()); err != nil || !ready {
		t.Fatalf("an absent ready means ready: %v %v", ready, err)
	}
	p.Script("Probe", func(context.Context, any) (any, error) {
		resp := &spec.ProbeResponse{}
		return resp, proto.Unmarshal([]byte{0x0a, 0x00}, resp) // ready: {value: false}
	})
	if ready, err := c.Probe(t.Context()); err != nil || ready {
		t.Fatalf("%v %v", ready, err)
	}
}

func TestDuty_H7_publishedNodesOnlyWhereAnnounced(t *testing.T) {
	p, c := start(t, csitest.Config{Controller: true, ControllerCaps: []string{"LIST_VOLUMES"}})
	p.Answer("ListVolumes", &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{
		Volume: &spec.Volume{VolumeId: "/buckets/x"}, Status: &spec.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{"n"}}}}})
	l, err := c.ListVolumes(t.Context(), &structs.ClientCSIListRequest{})
	if err != nil || l.Volumes[0].ExternalID != "/buckets/x" || l.Volumes[0].PublishedExternalNodeIDs != nil {
		t.Fatalf("%+v %v", l, err)
	}
}

func TestDuty_A12_aPluginThatComesLateOrAgainIsFound(t *testing.T) {
	p, err := csitest.New(both)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := csi.Dial(t.Context(), p.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Probe(t.Context()); !structs.IsKind(err, structs.KindUnavailable) || csi.Final(err) {
		t.Fatalf("nothing listens yet: %v", err)
	}
	for range 3 {
		if err := p.Restart(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error { _, err := c.Probe(t.Context()); return err })
		p.Stop()
		if _, err := c.Probe(t.Context()); !structs.IsKind(err, structs.KindUnavailable) {
			t.Fatalf("stopped: %v", err)
		}
	}
}

// eventually repeats a call that fails fast; each round trips through the kernel, so it yields by itself.
func eventually(t *testing.T, do func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestDuty_C4_C6_aTimeoutIsNotFinal(t *testing.T) {
	p, c := start(t, both, csi.WithTimeout(20*time.Millisecond))
	release := p.Hang("DeleteVolume")
	defer release()
	err := c.DeleteVolume(t.Context(), &structs.ClientCSIDeleteRequest{ExternalID: "v"})
	if !structs.IsKind(err, structs.KindTimeout) || csi.Code(err) != "DeadlineExceeded" || csi.Final(err) {
		t.Fatal(err)
	}
}

func TestAPluginThatDiesDuringACallIsUnavailable(t *testing.T) {
	p, c := start(t, both)
	defer p.Hang("DeleteVolume")()
	got := make(chan error, 1)
	go func() { got <- c.DeleteVolume(context.Background(), &structs.ClientCSIDeleteRequest{ExternalID: "v"}) }()
	if err := p.Await(t.Context(), "DeleteVolume", 1); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	if err := <-got; !structs.IsKind(err, structs.KindUnavailable) || csi.Final(err) {
		t.Fatal(err)
	}
}

func TestCallsAreMeasured(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	p, c := start(t, both, csi.WithMetrics(func(method, code string, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, method+" "+code)
	}))
	p.Fail("Probe", csitest.Error("Internal", "x"))
	_, _ = c.Probe(t.Context())
	_, _ = c.Probe(t.Context())
	if got := strings.Join(seen, ","); got != "Probe Internal,Probe OK" {
		t.Fatal(got)
	}
}

func TestDuty_C16_aLargeAnswerIsRead(t *testing.T) {
	p, c := start(t, both)
	resp := &spec.ListVolumesResponse{}
	for i := range 60_000 {
		resp.Entries = append(resp.Entries, &spec.ListVolumesResponse_Entry{Volume: &spec.Volume{VolumeId: fmt.Sprintf("%0100d", i)}})
	}
	p.Answer("ListVolumes", resp)
	l, err := c.ListVolumes(t.Context(), &structs.ClientCSIListRequest{})
	if err != nil || len(l.Volumes) != 60_000 {
		t.Fatal(err)
	}
}

func TestDuty_A9_endpointForms(t *testing.T) {
	for in, want := range map[string]string{
		"unix:///csi/csi.sock": "/csi/csi.sock",
		"unix:/csi/csi.sock":   "/csi/csi.sock",
		"/csi/csi.sock":        "/csi/csi.sock",
		"unix://csi.sock":      "",
		"csi.sock":             "",
		"tcp://127.0.0.1:80":   "",
		"":                     "",
	} {
		got, err := csi.SocketPath(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q %v", in, got, err)
		}
		if err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := csi.Dial(context.Background(), "x", nil); err == nil {
		t.Error("dialled a relative path")
	}
}

func TestAClosedClientSaysSo(t *testing.T) {
	_, c := start(t, both)
	_ = c.Close()
	_, err := c.Probe(t.Context())
	var e *structs.Error
	if !errors.As(err, &e) || csi.Final(err) {
		t.Fatalf("%v", err)
	}
}
