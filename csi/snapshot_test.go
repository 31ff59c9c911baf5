package csi_test

import (
	"slices"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

func snapshotRequest() *nodecalls.ClientCSISnapshotRequest {
	return &nodecalls.ClientCSISnapshotRequest{
		PluginID:         "pl",
		Name:             "nightly",
		SourceExternalID: "v",
		Parameters:       map[string]string{"kind": "fast"},
		Secrets:          structs.Secrets{"key": "swordfish"},
	}
}

func TestClient_SnapshotFromCreateToDelete(t *testing.T) {
	p, c := startPlugin(t, both)
	p.AddVolume("v", 4096)
	for range 2 {
		s, err := csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
		if err != nil {
			t.Fatal(err)
		}
		if s.ID != "snap-1" || s.ExternalSourceVolumeID != "v" ||
			s.SizeBytes != 4096 || !s.IsReady ||
			s.CreateTime != 1_700_000_000 {
			t.Errorf("made %+v", s)
		}
	}
	sent := p.Calls("CreateSnapshot")[0]
	for field, want := range map[string]string{
		"name": "nightly", "source_volume_id": "v", "secrets.key": "swordfish", "parameters.kind": "fast",
	} {
		if got := sent.Get(field); got != want {
			t.Errorf("sent %s %q, want %q", field, got, want)
		}
	}

	remove := &nodecalls.ClientCSISnapshotDeleteRequest{
		ExternalID: "snap-1",
		Secrets:    structs.Secrets{"key": "x"},
	}
	err := csi.Snapshots{Client: c}.Delete(t.Context(), remove)
	if err != nil || len(p.Snapshots()) != 0 {
		t.Errorf("left %v: %v", p.Snapshots(), err)
	}
	if got := p.Calls("DeleteSnapshot")[0].Get("secrets.key"); got != "x" {
		t.Errorf("sent the secret %q", got)
	}
}

func TestClient_ListsSnapshotsByPages(t *testing.T) {
	p, c := startPlugin(t, both)
	p.AddVolume("v", 4096)
	for _, name := range []string{"a", "b", "c"} {
		req := snapshotRequest()
		req.Name = name
		_, err := csi.Snapshots{Client: c}.Create(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
	}

	var ids []string
	req := &nodecalls.ClientCSISnapshotListRequest{MaxEntries: 2, Secrets: structs.Secrets{"key": "x"}}
	for {
		page, err := csi.Snapshots{Client: c}.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Snapshots {
			ids = append(ids, s.ID)
		}
		req.StartingToken = page.NextToken
		if page.NextToken == "" {
			break
		}
	}
	if want := []string{"snap-1", "snap-2", "snap-3"}; !slices.Equal(ids, want) {
		t.Errorf("listed %v, want %v", ids, want)
	}
	if n := len(p.Calls("ListSnapshots")); n != 2 {
		t.Errorf("%d calls", n)
	}
}

func TestDuty_I1_NoSnapshotWithoutItsCapability(t *testing.T) {
	cfg := both
	cfg.ControllerCaps = []string{"CREATE_DELETE_VOLUME"}
	p, c := startPlugin(t, cfg)
	_, err := csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
	if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) || len(p.Calls("CreateSnapshot")) != 0 {
		t.Errorf("%v, %d calls", err, len(p.Calls("CreateSnapshot")))
	}
}

func TestClient_SendsNoInvalidSnapshotRequest(t *testing.T) {
	p, c := startPlugin(t, both)
	create := func(change func(*nodecalls.ClientCSISnapshotRequest)) error {
		req := snapshotRequest()
		change(req)
		_, err := csi.Snapshots{Client: c}.Create(t.Context(), req)
		return err
	}
	negative := &nodecalls.ClientCSISnapshotListRequest{MaxEntries: -1}
	_, list := csi.Snapshots{Client: c}.List(t.Context(), negative)
	for name, err := range map[string]error{
		"name":       create(func(r *nodecalls.ClientCSISnapshotRequest) { r.Name = "" }),
		"long name":  create(func(r *nodecalls.ClientCSISnapshotRequest) { r.Name = textOf(129) }),
		"control":    create(func(r *nodecalls.ClientCSISnapshotRequest) { r.Name = "a\x00" }),
		"source":     create(func(r *nodecalls.ClientCSISnapshotRequest) { r.SourceExternalID = "" }),
		"parameters": create(func(r *nodecalls.ClientCSISnapshotRequest) { r.Parameters["k"] = textOf(5000) }),
		"delete":     csi.Snapshots{Client: c}.Delete(t.Context(), &nodecalls.ClientCSISnapshotDeleteRequest{}),
		"page":       list,
	} {
		if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(p.Calls("CreateSnapshot", "DeleteSnapshot", "ListSnapshots")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

// A plugin whose answer is malformed may have cut the snapshot, so the error is not final.
func TestClient_ChecksTheSnapshotsOfAnswers(t *testing.T) {
	good := func() *spec.Snapshot {
		return &spec.Snapshot{SnapshotId: "s", SourceVolumeId: "v", CreationTime: timestamppb.Now(), ReadyToUse: true}
	}
	p, c := startPlugin(t, both)
	for want, edit := range map[string]func(*spec.Snapshot){
		"snapshot_id: is empty":           func(s *spec.Snapshot) { s.SnapshotId = "" },
		"snapshot_id: is 1025 bytes":      func(s *spec.Snapshot) { s.SnapshotId = textOf(1025) },
		"source_volume_id":                func(s *spec.Snapshot) { s.SourceVolumeId = textOf(1025) },
		"size_bytes: is negative":         func(s *spec.Snapshot) { s.SizeBytes = -1 },
		"size_bytes: is above":            func(s *spec.Snapshot) { s.SizeBytes = structs.MaxVolumeBytes + 1 },
		"creation_time: is no time":       func(s *spec.Snapshot) { s.CreationTime.Seconds = -1 },
		"creation_time: is no time since": func(s *spec.Snapshot) { s.CreationTime.Nanos = -1 },
	} {
		s := good()
		edit(s)
		p.Answer("CreateSnapshot", &spec.CreateSnapshotResponse{Snapshot: s})
		p.Answer("ListSnapshots", &spec.ListSnapshotsResponse{
			Entries: []*spec.ListSnapshotsResponse_Entry{{Snapshot: s}},
		})
		_, made := csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
		_, listed := csi.Snapshots{Client: c}.List(t.Context(), &nodecalls.ClientCSISnapshotListRequest{})
		for _, err := range []error{made, listed} {
			if err == nil || !strings.Contains(err.Error(), want) || csi.Final(err) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
	for want, answer := range map[string]proto.Message{
		"snapshot: is missing":          &spec.CreateSnapshotResponse{},
		"source_volume_id: is not that": &spec.CreateSnapshotResponse{Snapshot: &spec.Snapshot{SnapshotId: "s"}},
		"group_snapshot_id: names a group": &spec.CreateSnapshotResponse{Snapshot: &spec.Snapshot{
			SnapshotId: "s", SourceVolumeId: "v", GroupSnapshotId: "g",
		}},
	} {
		p.Answer("CreateSnapshot", answer)
		_, err := csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
		if err == nil || !strings.Contains(err.Error(), want) || csi.Final(err) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	p.Answer("ListSnapshots", &spec.ListSnapshotsResponse{NextToken: "again"})
	endless := &nodecalls.ClientCSISnapshotListRequest{StartingToken: "again"}
	_, err := csi.Snapshots{Client: c}.List(t.Context(), endless)
	if err == nil || !strings.Contains(err.Error(), "starting token again") {
		t.Errorf("an endless list: %v", err)
	}
}

func TestDuty_E4_I8_TheTopologiesOfASnapshotAreRead(t *testing.T) {
	p, c := startPlugin(t, both)
	answer := &spec.Snapshot{
		SnapshotId:     "s",
		SourceVolumeId: "v",
		ReadyToUse:     true,
		AccessibleTopology: []*spec.Topology{
			{Segments: map[string]string{"zone": "a"}},
			{Segments: map[string]string{"zone": "b"}},
		},
	}
	p.Answer("CreateSnapshot", &spec.CreateSnapshotResponse{Snapshot: answer})
	got, err := csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
	if err != nil || len(got.AccessibleTopologies) != 2 ||
		got.AccessibleTopologies[1].Segments["zone"] != "b" {
		t.Errorf("got %+v, %v", got, err)
	}

	answer.AccessibleTopology = make([]*spec.Topology, structs.MaxCSITopologies+1)
	p.Answer("CreateSnapshot", &spec.CreateSnapshotResponse{Snapshot: answer})
	_, err = csi.Snapshots{Client: c}.Create(t.Context(), snapshotRequest())
	if err == nil || !strings.Contains(err.Error(), "accessible_topology: names 257 topologies") {
		t.Errorf("too many topologies: %v", err)
	}
}
