package structs

import (
	"strings"
	"testing"
)

func TestHostVolumeRequest_Validate(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*VolumeRequest)
	}{
		{"", func(*VolumeRequest) {}},
		{"", func(v *VolumeRequest) { v.AccessMode = CSISingleNodeSingleWriter }},
		{"", func(v *VolumeRequest) { v.AttachmentMode = CSIFileSystem }},
		{"source is required", func(v *VolumeRequest) { v.Source = "" }},
		{`access_mode "multi-node-reader-only" is not one of a host volume`,
			func(v *VolumeRequest) { v.AccessMode = CSIMultiNodeReader }},
		{"access_mode single-node-reader-only needs read_only = true",
			func(v *VolumeRequest) { v.AccessMode = CSISingleNodeReader }},
		{`attachment_mode "block-device" is not for host volumes`,
			func(v *VolumeRequest) { v.AttachmentMode = CSIBlockDevice }},
		{"mount_options is not for host volumes",
			func(v *VolumeRequest) { v.MountOptions = &CSIMountOptions{} }},
		{"per_alloc is not for host volumes", func(v *VolumeRequest) { v.PerAlloc = true }},
	} {
		j := testJob(func(j *Job) {
			v := &VolumeRequest{Type: VolumeTypeHost, Source: "data"}
			c.edit(v)
			j.TaskGroups[0].Volumes["data"] = v
		})
		err := j.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

// A volume ID and the name of a host volume may be equal.
func TestHostVolumeRequest_BesideAVolumeOfItsName(t *testing.T) {
	j := testJob(func(j *Job) {
		j.TaskGroups[0].Volumes["host"] = &VolumeRequest{Type: VolumeTypeHost, Source: "db"}
	})
	if err := j.Validate(); err != nil {
		t.Error(err)
	}
}

// TestHostVolumeRequest_SharesItsVolumeWithinAGroup has two blocks of one host volume. Those of which one
// excludes the other are rejected.
func TestHostVolumeRequest_SharesItsVolumeWithinAGroup(t *testing.T) {
	const exclusive = CSISingleNodeSingleWriter
	for _, c := range []struct {
		a, b     VolumeRequest
		rejected bool
	}{
		{VolumeRequest{}, VolumeRequest{ReadOnly: true}, false},
		{VolumeRequest{}, VolumeRequest{}, false},
		{VolumeRequest{ReadOnly: true}, VolumeRequest{ReadOnly: true}, false},
		{VolumeRequest{AccessMode: exclusive}, VolumeRequest{ReadOnly: true}, false},
		{VolumeRequest{AccessMode: exclusive}, VolumeRequest{}, true},
		{VolumeRequest{}, VolumeRequest{AccessMode: CSISingleNodeWriter}, true},
	} {
		j := testJob(func(j *Job) {
			for alias, v := range map[string]VolumeRequest{"a": c.a, "b": c.b} {
				v.Type = VolumeTypeHost
				v.Source = "srv"
				j.TaskGroups[0].Volumes[alias] = &v
			}
		})
		err := j.Validate()
		const want = `volume "b": host volume "srv" is that of volume "a" too, and its access_mode allows no other`
		if (err != nil) != c.rejected || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v and %+v: got %v", c.a, c.b, err)
		}
	}
}

func TestHostVolumes_OfANodeAreChecked(t *testing.T) {
	for want, v := range map[string]*HostVolume{
		`path "srv" is not absolute`: {Path: "srv"},
		"it is null":                 nil,
		"bytes":                      {Path: "/" + strings.Repeat("x", MaxText)},
	} {
		n := &Node{ID: "n1", HostVolumes: map[string]*HostVolume{"data": v}}
		if err := n.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	many := map[string]*HostVolume{}
	for i := range MaxHostVolumes + 1 {
		many[strings.Repeat("x", i+1)] = &HostVolume{Path: "/srv"}
	}
	if err := (&Node{ID: "n1", HostVolumes: many}).Validate(); err == nil {
		t.Error("a node with too many host volumes is valid")
	}
}
