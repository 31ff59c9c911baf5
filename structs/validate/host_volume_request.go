package validate

import (
	"slices"

	"berth/structs"
	"berth/structs/validate/field"
)

var hostRequestModes = []structs.CSIAccessMode{
	"",
	structs.CSISingleNodeReader,
	structs.CSISingleNodeWriter,
	structs.CSISingleNodeSingleWriter,
	structs.CSISingleNodeMultiWriter,
}

// noIndex is the fault of per_alloc in a job of a type.
const noIndex = "per_alloc is not for %s jobs: their allocations have no index of their own"

// checkHostVolumeRequest checks a request of a job for a host volume.
func checkHostVolumeRequest(f field.Errors, r *structs.VolumeRequest, j *structs.Job) {
	f.Require(slices.Contains(hostRequestModes, r.AccessMode),
		"access_mode %q is not one of a host volume: %s, %s, %s, %s", r.AccessMode,
		structs.CSISingleNodeReader, structs.CSISingleNodeWriter, structs.CSISingleNodeSingleWriter,
		structs.CSISingleNodeMultiWriter)
	f.Require(r.AccessMode != structs.CSISingleNodeReader || r.ReadOnly,
		"access_mode %s needs read_only = true", r.AccessMode)
	f.Require(r.AttachmentMode == "" || r.AttachmentMode.Valid(),
		"attachment_mode %.40q must be %s or %s", r.AttachmentMode, structs.CSIFileSystem, structs.CSIBlockDevice)
	f.Require(r.MountOptions == nil, "mount_options is not for host volumes: the machine has mounted them")
	f.Require(!r.PerAlloc || !j.PerNode(), noIndex, j.Type)
	f.Require(!r.Sticky || !j.PerNode(), "sticky is not for %s jobs: their allocations stay on their nodes",
		j.Type)
	f.Require(r.Class+r.Lifecycle == "" && r.Size == 0, "class, size and lifecycle are not for host volumes")
	f.Require(r.PluginID == "" && r.Parameters == nil, "plugin_id and parameters are not for host volumes")
	f.Require(r.OnDeadMount == "", "on_dead_mount is not for host volumes: the machine has mounted them")
	f.Require(r.Ownership == nil, "ownership is not for host volumes: the machine owns them")
}
