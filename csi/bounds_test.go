package csi_test

import (
	"fmt"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
)

// textOf returns a string of the given length.
func textOf(bytes int) string { return strings.Repeat("x", bytes) }

func volumeList(n, each int) *spec.ListVolumesResponse {
	resp := &spec.ListVolumesResponse{}
	for i := range n {
		resp.Entries = append(resp.Entries, &spec.ListVolumesResponse_Entry{Volume: &spec.Volume{
			VolumeId:      fmt.Sprint(i),
			VolumeContext: map[string]string{"k": textOf(each)},
		}})
	}
	return resp
}

func TestDuty_B1_AnswersOfAPluginAreBounded(t *testing.T) {
	p := csitest.Start(t, csitest.Config{Controller: true, Node: true})
	c, err := csi.Dial(p.Endpoint(), csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	info := func() error { _, err := c.PluginInfo(t.Context()); return err }
	node := func() error { _, err := c.NodeInfo(t.Context()); return err }
	list := func() error {
		_, err := c.ListVolumes(t.Context(), &nodecalls.ClientCSIListRequest{})
		return err
	}
	create := func() error {
		_, err := c.CreateVolume(t.Context(), &nodecalls.ClientCSICreateRequest{
			Name: "v",
			Capabilities: []*structs.CSIVolumeCapability{
				{AttachmentMode: structs.CSIFileSystem, AccessMode: structs.CSISingleNodeWriter}},
		})
		return err
	}
	places := func(n int) (ts []*spec.Topology) {
		for range n {
			ts = append(ts, &spec.Topology{Segments: map[string]string{"zone": "a"}})
		}
		return ts
	}
	for _, c := range []struct {
		name, rpc string
		call      func() error
		answer    proto.Message
		want      string
	}{
		{"a message", "GetPluginInfo", info, &spec.GetPluginInfoResponse{Name: "x", VendorVersion: textOf(2 << 20)},
			"larger than max"},
		{"a version", "GetPluginInfo", info, &spec.GetPluginInfoResponse{Name: "x", VendorVersion: textOf(2 << 10)},
			"vendor_version"},
		{"a manifest", "GetPluginInfo", info, &spec.GetPluginInfoResponse{Name: "x", VendorVersion: "1",
			Manifest: map[string]string{"k": textOf(20 << 10)}}, "manifest"},
		{"a node", "NodeGetInfo", node, &spec.NodeGetInfoResponse{NodeId: textOf(300)}, "node_id"},
		{"a list", "ListVolumes", list, volumeList(20, 1<<20), "larger than max"},
		{"an entry", "ListVolumes", list, volumeList(1, 20<<10), "entries[0].volume.volume_context"},
		{"a token", "ListVolumes", list, &spec.ListVolumesResponse{NextToken: textOf(5 << 10)}, "next_token"},
		{"a volume's places", "CreateVolume", create, &spec.CreateVolumeResponse{Volume: &spec.Volume{VolumeId: "v",
			AccessibleTopology: places(300)}}, "accessible_topology"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.Answer(c.rpc, c.answer)
			err := c.call()
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				len(err.Error()) > 1000 {
				t.Errorf("got %.2000v, want an error that names %s", err, c.want)
			}
		})
	}
	p.Answer("ListVolumes", volumeList(1000, 4<<10)) // more than any other answer may weigh
	if err := list(); err != nil {
		t.Error(err)
	}
}

func TestDuty_B1_AnErrorTextOfManyMegabytesIsNotTaken(t *testing.T) {
	p := csitest.Start(t, csitest.Config{Node: true})
	c, err := csi.Dial(p.Endpoint(), csi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	p.FailAlways("Probe", csitest.Error("Internal", "%s", textOf(8<<20)))
	if _, err := c.Probe(t.Context()); err == nil || len(err.Error()) > 4<<10 ||
		strings.Contains(err.Error(), "xxxx") {
		t.Errorf("got %.200v", err)
	}
	p.Script("Probe", nil)
	if _, err := c.Probe(t.Context()); err != nil {
		t.Errorf("the connection is of no use any more: %v", err)
	}
}
