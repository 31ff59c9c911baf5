package csi_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

func TestClient_ReadsPluginAndNode(t *testing.T) {
	cfg := both
	cfg.Topology = map[string]string{"zone": "a"}
	cfg.MaxVolumes = 7
	_, c := startPlugin(t, cfg)
	ctx := t.Context()
	if ready, err := c.Probe(ctx); err != nil || !ready {
		t.Fatalf("probe: %v %v", ready, err)
	}
	info, err := c.PluginInfo(ctx)
	if err != nil || info.Name != "test.csi.berth" || info.Version != "1.0" {
		t.Fatalf("info: %+v %v", info, err)
	}
	services, err := c.PluginCapabilities(ctx)
	if err != nil || !services.Controller || !services.Topology || !services.ExpandOnline ||
		services.ExpandOffline {
		t.Fatalf("services: %+v %v", services, err)
	}
	node, err := c.NodeInfo(ctx)
	if err != nil || node.ID != "node-1" || node.MaxVolumes != 7 ||
		node.AccessibleTopology.Segments["zone"] != "a" || !node.RequiresNodeStageVolume {
		t.Fatalf("node: %+v %v", node, err)
	}
}

// The steps of a volume from its creation to its deletion succeed, and the plugin keeps nothing.
func TestClient_VolumeFromCreateToDelete(t *testing.T) {
	cfg := both
	cfg.Topology = map[string]string{"zone": "a"}
	p, c := startPlugin(t, cfg)
	ctx := t.Context()
	v, err := c.CreateVolume(ctx, createRequest("data"))
	if err != nil || v.ExternalID != "vol-1" ||
		v.Capacity != 4096 || len(v.Topologies) != 1 {
		t.Fatalf("create: %+v %v", v, err)
	}
	again, err := c.CreateVolume(ctx, createRequest("data"))
	if err != nil || again.ExternalID != v.ExternalID {
		t.Fatalf("create again: %+v %v", again, err)
	}
	at, err := c.ControllerPublishVolume(ctx, &nodecalls.ClientCSIAttachRequest{
		ExternalID:     v.ExternalID,
		ExternalNodeID: "node-1",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	})
	if err != nil || at.PublishContext["device"] != "/dev/vol-1" {
		t.Fatalf("attach: %v", err)
	}
	for _, s := range volumeSteps(ctx, c, p.Dir()) {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	if len(p.Volumes()) != 0 {
		t.Fatalf("left: %v", p.Volumes())
	}
}

type volumeStep struct {
	name string
	do   func() error
}

// volumeSteps returns the steps of an attached volume, vol-1, until its deletion.
func volumeSteps(ctx context.Context, c *csi.Client, dir string) []volumeStep {
	staging := filepath.Join(dir, "s")
	target := filepath.Join(dir, "t")
	return []volumeStep{
		{"stage", func() error {
			return c.NodeStageVolume(ctx, &csi.StageRequest{
				Use:         testUse("vol-1"),
				StagingPath: staging,
			})
		}},
		{"publish", func() error {
			return c.NodePublishVolume(ctx, &csi.PublishRequest{
				Use:         testUse("vol-1"),
				StagingPath: staging,
				TargetPath:  target,
			})
		}},
		{"expand", func() error {
			r, err := c.ControllerExpandVolume(ctx, &nodecalls.ClientCSIExpandRequest{
				ExternalID: "vol-1",
				Capacity:   nodecalls.CSICapacityRange{RequiredBytes: 8192},
				Capability: oneWriter[0],
			})
			if err == nil && (r.Capacity != 8192 || !r.NodeExpansionRequired) {
				err = fmt.Errorf("expand %+v", r)
			}
			return err
		}},
		{"node expand", func() error {
			_, err := c.NodeExpandVolume(ctx, &csi.NodeExpandRequest{
				VolumePath: target,
				Use: csi.Use{
					VolumeID:       "vol-1",
					AccessMode:     structs.CSISingleNodeWriter,
					AttachmentMode: structs.CSIFileSystem,
				},
			})
			return err
		}},
		{"list", func() error {
			l, err := c.ListVolumes(ctx, &nodecalls.ClientCSIListRequest{})
			if err == nil &&
				(len(l.Volumes) != 1 ||
					l.Volumes[0].PublishedExternalNodeIDs[0] != "node-1") {
				err = fmt.Errorf("list %+v", l)
			}
			return err
		}},
		{"unpublish", func() error { return c.NodeUnpublishVolume(ctx, "vol-1", target) }},
		{"unstage", func() error { return c.NodeUnstageVolume(ctx, "vol-1", staging) }},
		{"detach", func() error {
			return c.ControllerUnpublishVolume(ctx, &nodecalls.ClientCSIDetachRequest{
				ExternalID:     "vol-1",
				ExternalNodeID: "node-1",
			})
		}},
		{"delete", func() error {
			return c.DeleteVolume(ctx, &nodecalls.ClientCSIDeleteRequest{ExternalID: "vol-1"})
		}},
	}
}

func TestDuty_F14_AVolumeOfTheWrongSizeComesWithTheError(t *testing.T) {
	p, c := startPlugin(t, both)
	p.Answer("CreateVolume", &spec.CreateVolumeResponse{Volume: &spec.Volume{
		VolumeId:      "small",
		CapacityBytes: 1,
	}})
	resp, err := c.CreateVolume(t.Context(), createRequest("n"))
	if err == nil || resp == nil || resp.ExternalID != "small" {
		t.Fatalf("%+v %v", resp, err)
	}
	p.Answer("CreateVolume",
		&spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "nfs"}})
	resp, err = c.CreateVolume(t.Context(), createRequest("n"))
	if err != nil || resp.Capacity != 0 {
		t.Fatalf("a size of 0 is unknown, not zero: %v", err)
	}
}

func TestDuty_H7_PublishedNodesOnlyWhereAnnounced(t *testing.T) {
	p, c := startPlugin(t, csitest.Config{
		Controller:     true,
		ControllerCaps: []string{"LIST_VOLUMES"},
	})
	p.Answer("ListVolumes", &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{
		Volume: &spec.Volume{VolumeId: "/buckets/x"},
		Status: &spec.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{"n"}}}}})
	l, err := c.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
	if err != nil || l.Volumes[0].ExternalID != "/buckets/x" ||
		l.Volumes[0].PublishedExternalNodeIDs != nil {
		t.Fatalf("%+v %v", l, err)
	}
}

func TestDuty_E7_NotReadyIsNoError(t *testing.T) {
	p, c := startPlugin(t, both)
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
