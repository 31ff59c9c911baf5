package validate

import (
	"strings"
	"testing"

	"berth/structs"
	"berth/structs/storage"
)

func TestHostVolumeRequest_NamesTheFault(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*structs.VolumeRequest)
	}{
		{"", func(*structs.VolumeRequest) {}},
		{"", func(v *structs.VolumeRequest) { v.AccessMode = structs.CSISingleNodeSingleWriter }},
		{"", func(v *structs.VolumeRequest) { v.AttachmentMode = structs.CSIFileSystem }},
		{"source is required", func(v *structs.VolumeRequest) { v.Source = "" }},
		{`access_mode "multi-node-reader-only" is not one of a host volume`,
			func(v *structs.VolumeRequest) { v.AccessMode = structs.CSIMultiNodeReader }},
		{"access_mode single-node-reader-only needs read_only = true",
			func(v *structs.VolumeRequest) { v.AccessMode = structs.CSISingleNodeReader }},
		{"", func(v *structs.VolumeRequest) { v.AttachmentMode = structs.CSIBlockDevice }},
		{"", func(v *structs.VolumeRequest) { v.PerAlloc = true }},
		{"", func(v *structs.VolumeRequest) { v.Sticky = true }},
		{`attachment_mode "tape" must be file-system or block-device`,
			func(v *structs.VolumeRequest) { v.AttachmentMode = "tape" }},
		{"sticky is for a host volume", func(v *structs.VolumeRequest) {
			v.Type = structs.VolumeTypeCSI
			v.AccessMode = structs.CSISingleNodeWriter
			v.AttachmentMode = structs.CSIFileSystem
			v.Sticky = true
		}},
		{"mount_options is not for host volumes",
			func(v *structs.VolumeRequest) { v.MountOptions = &structs.CSIMountOptions{} }},
		{"on_dead_mount is not for host volumes: the machine has mounted them",
			func(v *structs.VolumeRequest) { v.OnDeadMount = storage.DeadMountIgnore }},
		{"ownership is not for host volumes",
			func(v *structs.VolumeRequest) { v.Ownership = &structs.VolumeOwnership{Owner: "web"} }},
	} {
		j := testJob(func(j *structs.Job) {
			v := &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "data"}
			c.edit(v)
			j.TaskGroups[0].Volumes["data"] = v
		})
		err := Job(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}

func TestHostVolumeRequest_OfAPerNodeJob(t *testing.T) {
	for want, edit := range map[string]func(*structs.VolumeRequest){
		"sticky is not for system jobs":    func(v *structs.VolumeRequest) { v.Sticky = true },
		"per_alloc is not for system jobs": func(v *structs.VolumeRequest) { v.PerAlloc = true },
	} {
		err := Job(testJob(func(j *structs.Job) {
			j.Type = structs.JobSystem
			v := &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "data"}
			edit(v)
			j.TaskGroups[0].Volumes["data"] = v
		}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A volume ID and the name of a host volume may be equal.
func TestHostVolumeRequest_BesideAVolumeOfItsName(t *testing.T) {
	j := testJob(func(j *structs.Job) {
		j.TaskGroups[0].Volumes["host"] = &structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "db"}
	})
	if err := Job(j); err != nil {
		t.Error(err)
	}
}

// TestHostVolumeRequest_SharesItsVolumeWithinAGroup has two blocks of one host volume. Those of which one
// excludes the other are rejected.
func TestHostVolumeRequest_SharesItsVolumeWithinAGroup(t *testing.T) {
	const exclusive = structs.CSISingleNodeSingleWriter
	for _, c := range []struct {
		a, b     structs.VolumeRequest
		rejected bool
	}{
		{structs.VolumeRequest{}, structs.VolumeRequest{ReadOnly: true}, false},
		{structs.VolumeRequest{}, structs.VolumeRequest{}, false},
		{structs.VolumeRequest{ReadOnly: true}, structs.VolumeRequest{ReadOnly: true}, false},
		{structs.VolumeRequest{AccessMode: exclusive}, structs.VolumeRequest{ReadOnly: true}, false},
		{structs.VolumeRequest{AccessMode: exclusive}, structs.VolumeRequest{}, true},
		{structs.VolumeRequest{}, structs.VolumeRequest{AccessMode: structs.CSISingleNodeWriter}, true},
	} {
		j := testJob(func(j *structs.Job) {
			for alias, v := range map[string]structs.VolumeRequest{"a": c.a, "b": c.b} {
				v.Type = structs.VolumeTypeHost
				v.Source = "srv"
				j.TaskGroups[0].Volumes[alias] = &v
			}
		})
		err := Job(j)
		const want = `volume "b": host volume "srv" is that of volume "a" too, and its access_mode allows no other`
		if (err != nil) != c.rejected || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v and %+v: got %v", c.a, c.b, err)
		}
	}
}

func TestOwnership_NamesTheFault(t *testing.T) {
	type request = *structs.VolumeRequest
	for _, c := range []struct {
		want      string
		ownership structs.VolumeOwnership
		edit      func(request)
	}{
		{want: "", ownership: structs.VolumeOwnership{Owner: "web", Group: "33", Mode: "0770", Policy: "always"}},
		{want: "", ownership: structs.VolumeOwnership{Group: "33", Policy: "root-mismatch"}},
		{want: "", ownership: structs.VolumeOwnership{Mode: "3777", Policy: "never"}},
		{want: "it needs an owner, a group or a mode", ownership: structs.VolumeOwnership{Policy: "always"}},
		{want: `policy "sometimes" must be one of`, ownership: structs.VolumeOwnership{Mode: "1", Policy: "sometimes"}},
		{want: `mode "4755" is no octal mode`, ownership: structs.VolumeOwnership{Mode: "4755"}},
		{want: `mode "rwx" is no octal mode`, ownership: structs.VolumeOwnership{Mode: "rwx"}},
		{want: "owner", ownership: structs.VolumeOwnership{Owner: strings.Repeat("x", structs.MaxName+1)}},
		{want: "group", ownership: structs.VolumeOwnership{Group: strings.Repeat("x", structs.MaxName+1)}},
		{want: "a device has no files", ownership: structs.VolumeOwnership{Owner: "web"},
			edit: func(v request) { v.AttachmentMode = structs.CSIBlockDevice }},
		{want: "ownership is not allowed with read_only", ownership: structs.VolumeOwnership{Owner: "web"},
			edit: func(v request) { v.ReadOnly = true }},
	} {
		j := testJob(func(j *structs.Job) {
			v := j.TaskGroups[0].Volumes["data"]
			v.Ownership = &c.ownership
			if c.edit != nil {
				c.edit(v)
			}
		})
		err := Job(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
