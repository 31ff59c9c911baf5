package validate

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestVolumeRequest_ForEachAllocation(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*structs.VolumeRequest)
	}{
		{"", func(*structs.VolumeRequest) {}},
		{`lifecycle "inline"`, func(v *structs.VolumeRequest) { v.Lifecycle = "inline" }},
		{"per_alloc is not allowed with lifecycle", func(v *structs.VolumeRequest) { v.PerAlloc = true }},
		{"lifecycle needs a class", func(v *structs.VolumeRequest) {
			v.Class = ""
			v.Size = 0
		}},
		{"class, size and lifecycle are not for host volumes", func(v *structs.VolumeRequest) {
			*v = structs.VolumeRequest{
				Type:      structs.VolumeTypeHost,
				Source:    "data",
				Lifecycle: structs.LifecycleAlloc,
			}
		}},
	} {
		j := testJob(func(j *structs.Job) {
			g := j.TaskGroups[0]
			g.Count = 3
			v := &structs.VolumeRequest{
				Type:           structs.VolumeTypeCSI,
				Source:         j.ID + "." + g.Name + ".data",
				Class:          "fast",
				Size:           1 << 30,
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
				Lifecycle:      structs.LifecycleAlloc,
			}
			c.edit(v)
			g.Volumes["data"] = v
		})
		err := Job(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
