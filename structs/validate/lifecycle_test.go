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
		{`lifecycle "never" must be one of`, func(v *structs.VolumeRequest) { v.Lifecycle = "never" }},
		{`plugin_id and parameters need lifecycle = "inline"`, func(v *structs.VolumeRequest) { v.PluginID = "p" }},
		{`plugin_id and parameters need lifecycle = "inline"`, func(v *structs.VolumeRequest) {
			v.Parameters = map[string]string{"size": "1Mi"}
		}},
		{"plugin_id and parameters are not for host volumes", func(v *structs.VolumeRequest) {
			*v = structs.VolumeRequest{Type: structs.VolumeTypeHost, Source: "data", PluginID: "p"}
		}},
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

func TestVolumeRequest_Inline(t *testing.T) {
	for _, c := range []struct {
		want string
		edit func(*structs.VolumeRequest)
	}{
		{"", func(*structs.VolumeRequest) {}},
		{"", func(v *structs.VolumeRequest) { v.ReadOnly = true }},
		{"plugin_id is required", func(v *structs.VolumeRequest) { v.PluginID = "" }},
		{`plugin_id "a/b" must be`, func(v *structs.VolumeRequest) { v.PluginID = "a/b" }},
		{"class and size are not allowed", func(v *structs.VolumeRequest) { v.Class = "fast" }},
		{"class and size are not allowed", func(v *structs.VolumeRequest) { v.Size = 1 }},
		{"per_alloc is not allowed with lifecycle", func(v *structs.VolumeRequest) { v.PerAlloc = true }},
		{`source "mine" is not allowed`, func(v *structs.VolumeRequest) { v.Source = "mine" }},
		{"attachment_mode \"block-device\" are not allowed", func(v *structs.VolumeRequest) {
			v.AttachmentMode = structs.CSIBlockDevice
		}},
		{`access_mode "multi-node-multi-writer"`, func(v *structs.VolumeRequest) {
			v.AccessMode = structs.CSIMultiNodeMultipleWriter
		}},
		{"ownership and on_dead_mount are not allowed", func(v *structs.VolumeRequest) {
			v.Ownership = &structs.VolumeOwnership{Owner: "app"}
		}},
		{"ownership and on_dead_mount are not allowed", func(v *structs.VolumeRequest) { v.OnDeadMount = "ignore" }},
		{`key "csi.storage.k8s.io/pod.name" is not allowed`, func(v *structs.VolumeRequest) {
			v.Parameters = map[string]string{"csi.storage.k8s.io/pod.name": "other"}
		}},
		{`key "CSI.storage.k8s.io/pod.name" is not allowed`, func(v *structs.VolumeRequest) {
			v.Parameters = map[string]string{"CSI.storage.k8s.io/pod.name": "other"}
		}},
		{"parameters has 2561 bytes", func(v *structs.VolumeRequest) {
			v.Parameters = map[string]string{"k": strings.Repeat("v", 2560)}
		}},
	} {
		j := testJob(func(j *structs.Job) {
			g := j.TaskGroups[0]
			g.Count = 3
			g.Volumes = map[string]*structs.VolumeRequest{}
			g.Tasks[0].VolumeMounts = nil
			v := &structs.VolumeRequest{
				Type:           structs.VolumeTypeCSI,
				Source:         j.ID + "." + g.Name + ".tmp",
				Lifecycle:      structs.LifecycleInline,
				PluginID:       "scratch",
				Parameters:     map[string]string{"size": "1Mi"},
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			}
			c.edit(v)
			g.Volumes["tmp"] = v
		})
		err := Job(j)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("want %q, got %v", c.want, err)
		}
	}
}
