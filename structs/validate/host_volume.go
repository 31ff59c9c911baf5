package validate

import (
	"slices"

	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

// hostVolumeModes are the dialect's. A volume is on one node.
var hostVolumeModes = []structs.CSIAccessMode{
	structs.CSISingleNodeReader,
	structs.CSISingleNodeWriter,
	structs.CSISingleNodeSingleWriter,
	structs.CSISingleNodeMultiWriter,
}

// HostVolume returns all faults of a canonical host volume of a request, each with its field. The rules of
// the row that Row returns hold besides.
func HostVolume(v *storage.DynamicHostVolume) error {
	f := field.New("")
	f.CheckName("volume: name", v.Name)
	f = f.At("volume %q", structs.Cut(v.Name, structs.MaxQuoted))
	f.CheckBytes("name", len(v.Name), structs.MaxCSIString)
	f.CheckBytes("id", len(v.ID), structs.MaxCSIString)
	f.CheckBytes("node_id", len(v.NodeID), structs.MaxCSIString)
	f.CheckBytes("node_pool", len(v.NodePool), structs.MaxCSIString)
	f.CheckBytes("plugin_id", len(v.PluginID), structs.MaxCSIString)
	f.Require(len(v.RequestedCapabilities) > 0, "a capability block is required")
	most := 2 * len(hostVolumeModes)
	for i, c := range field.FirstOf(f, "capabilities", v.RequestedCapabilities, most) {
		at := f.At("capability %d", i+1)
		switch {
		case c == nil:
			at.Addf("it is null")
		case !slices.Contains(hostVolumeModes, c.AccessMode):
			at.Addf("access_mode %.40q must be %s", c.AccessMode, field.OneOf(hostVolumeModes))
		case !c.AttachmentMode.Valid():
			at.Addf("attachment_mode %.40q must be %s or %s",
				c.AttachmentMode, structs.CSIFileSystem, structs.CSIBlockDevice)
		}
	}
	checkHostVolumeConstraints(f, v.Constraints)
	if f.Err() != nil {
		return f.Err()
	}
	return checkHostVolumeRow(v)
}

// checkHostVolumeRow checks the values that the row has from the volume, as for any volume.
func checkHostVolumeRow(v *storage.DynamicHostVolume) error {
	row := v.Row(nil)
	row.ID = v.Name // which the caller knows
	row.Canonicalize()
	return Volume(row)
}

// checkHostVolumeConstraints rejects constraints that are about other allocations: a volume has one node.
func checkHostVolumeConstraints(f field.Errors, list []*structs.Constraint) {
	Constraints(f, list)
	for i, c := range list {
		if c != nil && (c.Operand == structs.ConstraintDistinctHosts ||
			c.Operand == structs.ConstraintDistinctProperty) {
			f.At("constraint %d", i+1).Addf("operator %s is for the allocations of a job", c.Operand)
		}
	}
}
