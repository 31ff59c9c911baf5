package csi_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

var withGroups = csitest.Config{Controller: true, Node: true, Groups: true}

func groupRequest() *nodecalls.ClientCSIGroupRequest {
	return &nodecalls.ClientCSIGroupRequest{
		PluginID:          "pl",
		Name:              "nightly",
		SourceExternalIDs: []string{"w", "v"},
		Parameters:        map[string]string{"kind": "fast"},
		Secrets:           structs.Secrets{"key": "swordfish"},
	}
}

func TestDuty_L4_L9_AGroupIsDeletedWithTheListOfItsSnapshots(t *testing.T) {
	p, c := startPlugin(t, withGroups)
	p.AddVolume("v", 4096)
	p.AddVolume("w", 8192)
	g, err := csi.Groups{Client: c}.Create(t.Context(), groupRequest())
	if err != nil {
		t.Fatal(err)
	}
	v, w := g.Of("v"), g.Of("w")
	if g.ID != "group-1" || !g.IsReady || g.CreateTime != 1_700_000_000 || len(g.Snapshots) != 2 ||
		v.ID != "snap-3" || v.SizeBytes != 4096 || w.ID != "snap-2" || w.SizeBytes != 8192 {
		t.Errorf("made %+v with %+v and %+v", g, v, w)
	}
	sent := p.Calls("CreateVolumeGroupSnapshot")[0]
	for field, want := range map[string]string{
		"name": "nightly", "secrets.key": "swordfish", "parameters.kind": "fast",
	} {
		if got := sent.Get(field); got != want {
			t.Errorf("sent %s %q, want %q", field, got, want)
		}
	}

	sources := sent.Request.(*spec.CreateVolumeGroupSnapshotRequest).GetSourceVolumeIds()
	if !slices.Equal(sources, []string{"w", "v"}) {
		t.Errorf("sent the sources %v", sources)
	}

	remove := &nodecalls.ClientCSIGroupDeleteRequest{
		ExternalID:  g.ID,
		SnapshotIDs: []string{w.ID},
		Secrets:     structs.Secrets{"key": "swordfish"},
	}
	err = csi.Groups{Client: c}.Delete(t.Context(), remove)
	if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
		t.Errorf("a part of the list: %v", err)
	}
	remove.SnapshotIDs = []string{w.ID, v.ID}
	err = csi.Groups{Client: c}.Delete(t.Context(), remove)
	if err != nil || len(p.Groups()) != 0 || len(p.Snapshots()) != 0 {
		t.Errorf("left %v and %v: %v", p.Groups(), p.Snapshots(), err)
	}
	if got := p.Calls("DeleteVolumeGroupSnapshot")[0].Get("secrets.key"); got != "swordfish" {
		t.Errorf("sent the secret %q", got)
	}
}

func TestDuty_L1_NoGroupWithoutItsServiceAndCapability(t *testing.T) {
	for name, change := range map[string]func(*csitest.Config){
		"no service":    func(c *csitest.Config) { c.PluginCaps = []string{"CONTROLLER_SERVICE"} },
		"no capability": func(c *csitest.Config) { c.GroupCaps = []string{} },
		"another one":   func(c *csitest.Config) { c.GroupCaps = []string{"NOT_INVENTED_YET"} },
	} {
		cfg := withGroups
		change(&cfg)
		p, c := startPlugin(t, cfg)
		offered, err := csi.Groups{Client: c}.Offered(t.Context())
		if offered || err != nil {
			t.Errorf("%s: offered %v, %v", name, offered, err)
		}
		_, err = csi.Groups{Client: c}.Create(t.Context(), groupRequest())
		if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) ||
			len(p.Calls("CreateVolumeGroupSnapshot")) != 0 {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(p.Calls("GroupControllerGetCapabilities")); name == "no service" && n != 0 {
			t.Errorf("the service is not announced and was called %d times", n)
		}
	}
	_, c := startPlugin(t, withGroups)
	if offered, err := (csi.Groups{Client: c}).Offered(t.Context()); !offered || err != nil {
		t.Errorf("offered %v, %v", offered, err)
	}
}

func TestDuty_L3_NoGroupRequestWithoutSourcesIsSent(t *testing.T) {
	p, c := startPlugin(t, withGroups)
	create := func(change func(*nodecalls.ClientCSIGroupRequest)) error {
		req := groupRequest()
		change(req)
		_, err := csi.Groups{Client: c}.Create(t.Context(), req)
		return err
	}
	remove := func(id string, snapshots ...string) error {
		return csi.Groups{Client: c}.Delete(t.Context(),
			&nodecalls.ClientCSIGroupDeleteRequest{ExternalID: id, SnapshotIDs: snapshots})
	}
	var many []string
	for i := range storage.MaxGroupMembers + 1 {
		many = append(many, strconv.Itoa(i))
	}
	for name, err := range map[string]error{
		"name":         create(func(r *nodecalls.ClientCSIGroupRequest) { r.Name = "" }),
		"long name":    create(func(r *nodecalls.ClientCSIGroupRequest) { r.Name = textOf(129) }),
		"no source":    create(func(r *nodecalls.ClientCSIGroupRequest) { r.SourceExternalIDs = nil }),
		"empty source": create(func(r *nodecalls.ClientCSIGroupRequest) { r.SourceExternalIDs[0] = "" }),
		"twice":        create(func(r *nodecalls.ClientCSIGroupRequest) { r.SourceExternalIDs[0] = "v" }),
		"many":         create(func(r *nodecalls.ClientCSIGroupRequest) { r.SourceExternalIDs = many }),
		"parameters":   create(func(r *nodecalls.ClientCSIGroupRequest) { r.Parameters["k"] = textOf(5000) }),
		"no group":     remove("", "s"),
		"no snapshots": remove("g"),
	} {
		if structs.KindOf(err) != structs.KindInvalid || !csi.Final(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(p.Calls("CreateVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
}

// A plugin whose answer is malformed may have cut the group, so the error is not final.
func TestDuty_L4_I7_TheSnapshotsOfAGroupAreChecked(t *testing.T) {
	p, c := startPlugin(t, withGroups)
	for want, edit := range map[string]func(*spec.VolumeGroupSnapshot){
		"group_snapshot_id: is empty":          func(g *spec.VolumeGroupSnapshot) { g.GroupSnapshotId = "" },
		"group_snapshot_id: is 1025 bytes":     func(g *spec.VolumeGroupSnapshot) { g.GroupSnapshotId = textOf(1025) },
		"creation_time: is no time":            func(g *spec.VolumeGroupSnapshot) { g.CreationTime.Seconds = -1 },
		"snapshots: has another number":        func(g *spec.VolumeGroupSnapshot) { g.Snapshots = g.Snapshots[:1] },
		"snapshots: has no snapshot":           func(g *spec.VolumeGroupSnapshot) { g.Snapshots[0].SourceVolumeId = "x" },
		"snapshots: has two":                   func(g *spec.VolumeGroupSnapshot) { g.Snapshots[0].SnapshotId = "b" },
		"snapshots[1].snapshot_id: is empty":   func(g *spec.VolumeGroupSnapshot) { g.Snapshots[1].SnapshotId = "" },
		"snapshots[1].size_bytes: is negative": func(g *spec.VolumeGroupSnapshot) { g.Snapshots[1].SizeBytes = -1 },
		"is that of another group":             func(g *spec.VolumeGroupSnapshot) { g.Snapshots[1].GroupSnapshotId = "h" },
		"snapshots: has more": func(g *spec.VolumeGroupSnapshot) {
			for range storage.MaxGroupMembers {
				g.Snapshots = append(g.Snapshots, &spec.Snapshot{})
			}
		},
	} {
		g := &spec.VolumeGroupSnapshot{
			GroupSnapshotId: "g",
			CreationTime:    timestamppb.Now(),
			ReadyToUse:      true,
			Snapshots: []*spec.Snapshot{
				{SnapshotId: "a", SourceVolumeId: "v", GroupSnapshotId: "g", ReadyToUse: true},
				{SnapshotId: "b", SourceVolumeId: "w", ReadyToUse: true},
			},
		}
		p.Answer("CreateVolumeGroupSnapshot", &spec.CreateVolumeGroupSnapshotResponse{GroupSnapshot: g})
		if _, err := (csi.Groups{Client: c}).Create(t.Context(), groupRequest()); err != nil {
			t.Fatalf("the answer without a fault: %v", err)
		}
		edit(g)
		_, err := csi.Groups{Client: c}.Create(t.Context(), groupRequest())
		if err == nil || !strings.Contains(err.Error(), want) || csi.Final(err) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	p.Answer("CreateVolumeGroupSnapshot", &spec.CreateVolumeGroupSnapshotResponse{})
	_, err := csi.Groups{Client: c}.Create(t.Context(), groupRequest())
	if err == nil || !strings.Contains(err.Error(), "group_snapshot: is missing") || csi.Final(err) {
		t.Errorf("got %v", err)
	}
}

// A group is ready once each of its snapshots is, also for a plugin that says so too early.
func TestDuty_L2_AGroupIsReadyWithItsLastSnapshot(t *testing.T) {
	p, c := startPlugin(t, withGroups)
	p.Answer("CreateVolumeGroupSnapshot", &spec.CreateVolumeGroupSnapshotResponse{
		GroupSnapshot: &spec.VolumeGroupSnapshot{
			GroupSnapshotId: "g",
			ReadyToUse:      true,
			Snapshots: []*spec.Snapshot{
				{SnapshotId: "a", SourceVolumeId: "v", ReadyToUse: true},
				{SnapshotId: "b", SourceVolumeId: "w"},
			},
		},
	})
	g, err := csi.Groups{Client: c}.Create(t.Context(), groupRequest())
	if err != nil || g.IsReady {
		t.Errorf("got %+v, %v", g, err)
	}
}

func TestDuty_A7_NoErrorOfAGroupShowsASecret(t *testing.T) {
	p, c := startPlugin(t, withGroups)
	p.FailAlways("CreateVolumeGroupSnapshot", csitest.Error("FailedPrecondition", "key swordfish is wrong"))
	p.FailAlways("DeleteVolumeGroupSnapshot", csitest.Error("Internal", "key swordfish is wrong"))
	_, made := csi.Groups{Client: c}.Create(t.Context(), groupRequest())
	removed := csi.Groups{Client: c}.Delete(t.Context(), &nodecalls.ClientCSIGroupDeleteRequest{
		ExternalID: "g", SnapshotIDs: []string{"s"}, Secrets: structs.Secrets{"key": "swordfish"},
	})
	for _, err := range []error{made, removed} {
		if err == nil || strings.Contains(err.Error(), "swordfish") || !strings.Contains(err.Error(), "is wrong") {
			t.Errorf("got %v", err)
		}
	}
}
