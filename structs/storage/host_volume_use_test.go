package storage_test

import (
	"reflect"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

func host(alias string) *structs.VolumeRequest {
	return &structs.VolumeRequest{
		Name: alias, Type: structs.VolumeTypeHost, Source: "data", ReadOnly: alias == "r",
	}
}

func aGroup() *structs.TaskGroup {
	return &structs.TaskGroup{Name: "g", Volumes: map[string]*structs.VolumeRequest{
		"w": host("w"), "r": host("r"), "c": {Name: "c", Type: structs.VolumeTypeCSI, Source: "v"},
	}}
}

func TestGroup_HasARequestForTheVolumeOfTheAllocation(t *testing.T) {
	g := aGroup()
	uses := []structs.CSIVolumeUse{
		{VolumeID: "v"},
		storage.HostVolumeUse("w", g.Volumes["w"], "id", ""),
		storage.HostVolumeUse("gone", host("gone"), "other", ""),
	}
	want := aGroup()
	want.Volumes["w"] = &structs.VolumeRequest{
		Name:           "w",
		Type:           structs.VolumeTypeCSI,
		Source:         "id",
		AccessMode:     structs.CSISingleNodeWriter,
		AttachmentMode: structs.CSIFileSystem,
	}
	if got := storage.GroupWithHostVolumes(g, uses); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got.Volumes["w"])
	}
	if !reflect.DeepEqual(g, aGroup()) {
		t.Error("the group of the job has changed")
	}
	if got := storage.GroupWithHostVolumes(g, uses[:1]); got != g {
		t.Error("a group without dynamic host volumes is copied")
	}
	if got := storage.HostVolumeUses(g, uses); len(got) != 1 || got[0].Alias != "w" {
		t.Errorf("the uses are %+v", got)
	}
}

func TestResolve_LeavesTheSharedJobAlone(t *testing.T) {
	j := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{aGroup()}}
	a := &structs.Allocation{Job: j, TaskGroup: "g"}
	storage.ResolveHostVolumes(a)
	if a.Job != j {
		t.Error("a job without dynamic host volumes is copied")
	}
	a.CSIVolumes = []structs.CSIVolumeUse{storage.HostVolumeUse("r", host("r"), "id", "")}
	storage.ResolveHostVolumes(a)
	got := a.Job.Group("g").Volumes["r"]
	if got.Type != structs.VolumeTypeCSI || got.Source != "id" || !got.ReadOnly {
		t.Errorf("got %+v", got)
	}
	if !reflect.DeepEqual(j.TaskGroups[0], aGroup()) {
		t.Error("the job of other allocations has changed")
	}
	storage.ResolveHostVolumes(&structs.Allocation{CSIVolumes: a.CSIVolumes})
}

func TestUse_HasTheClassOfTheRequest(t *testing.T) {
	r := host("r")
	r.AccessMode = structs.CSISingleNodeMultiWriter
	want := structs.ClaimClass{
		AccessMode:     structs.CSISingleNodeMultiWriter,
		AttachmentMode: structs.CSIFileSystem,
		Mode:           structs.ClaimRead,
	}
	if got := storage.HostVolumeUse("r", r, "id", "c"); got.Class() != want || got.Claim != "c" {
		t.Errorf("got %+v", got)
	}
}

func TestTakesStatic(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(r *structs.VolumeRequest)
		want bool
	}{
		"plain":         {func(*structs.VolumeRequest) {}, true},
		"a file system": {func(r *structs.VolumeRequest) { r.AttachmentMode = structs.CSIFileSystem }, true},
		"a device":      {func(r *structs.VolumeRequest) { r.AttachmentMode = structs.CSIBlockDevice }, false},
		"per_alloc":     {func(r *structs.VolumeRequest) { r.PerAlloc = true }, false},
		"sticky":        {func(r *structs.VolumeRequest) { r.Sticky = true }, false},
	} {
		r := host("w")
		c.edit(r)
		if got := storage.TakesStaticHostVolume(r); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestEachDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(r *structs.VolumeRequest)
		want bool
	}{
		"plain":     {func(*structs.VolumeRequest) {}, false},
		"per_alloc": {func(r *structs.VolumeRequest) { r.PerAlloc = true }, true},
		"sticky":    {func(r *structs.VolumeRequest) { r.Sticky = true }, true},
	} {
		g := aGroup()
		c.edit(g.Volumes["w"])
		if got := storage.HostVolumesDiffer(g); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestConflict_NamesAVolumeWithOneWriter: both groups write it, and one of them allows no other writer.
func TestConflict_NamesAVolumeWithOneWriter(t *testing.T) {
	group := func(mode structs.CSIAccessMode, readOnly bool) *structs.TaskGroup {
		r := host("w")
		r.AccessMode = mode
		r.ReadOnly = readOnly
		return &structs.TaskGroup{Volumes: map[string]*structs.VolumeRequest{"w": r}}
	}
	alone := group(structs.CSISingleNodeSingleWriter, false)
	shared := group(structs.CSISingleNodeMultiWriter, false)
	for _, c := range []struct {
		name string
		a, b *structs.TaskGroup
		want string
	}{
		{"both alone", alone, alone, "data"},
		{"one alone", shared, alone, "data"},
		{"none alone", shared, shared, ""},
		{"a reader", alone, group("", true), ""},
		{"no host volume", &structs.TaskGroup{}, alone, ""},
		{"no other host volume", alone, &structs.TaskGroup{}, ""},
		{"no group", nil, alone, ""},
		{"no other group", alone, nil, ""},
	} {
		if got := storage.HostVolumeConflict(c.a, c.b); got != c.want {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}
