package csi

import (
	"slices"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
)

// accessMode is one line of the table of access modes. A plugin that knows SINGLE_NODE_MULTI_WRITER gets fine
// instead of plain: there SINGLE_NODE_WRITER is ambiguous.
type accessMode struct {
	mode  structs.CSIAccessMode
	plain spec.VolumeCapability_AccessMode_Mode
	fine  spec.VolumeCapability_AccessMode_Mode
}

var accessModes = []accessMode{
	{
		structs.CSISingleNodeReader, spec.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
		spec.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	},
	{
		structs.CSISingleNodeWriter, spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
		spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	},
	{
		structs.CSIMultiNodeReader, spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	},
	{
		structs.CSIMultiNodeSingleWriter, spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	},
	{
		structs.CSIMultiNodeMultipleWriter, spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
		spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
	},
}

// toMode returns the mode on the wire.
func toMode(mode structs.CSIAccessMode, fine bool) (spec.VolumeCapability_AccessMode_Mode, bool) {
	for _, m := range accessModes {
		if m.mode != mode {
			continue
		}
		if fine {
			return m.fine, true
		}
		return m.plain, true
	}
	return spec.VolumeCapability_AccessMode_UNKNOWN, false
}

// capabilityUse is one use of a volume, independent of the plugin's name for its mode.
type capabilityUse struct {
	access     structs.CSIAccessMode
	attachment structs.CSIAttachmentMode
	options    *structs.CSIMountOptions
	group      string
}

// capability encodes a use; fault is the reason if it cannot.
func (u capabilityUse) capability(fine bool) (cap *spec.VolumeCapability, fault string) {
	mode, ok := toMode(u.access, fine)
	if !ok {
		return nil, "no access mode " + strconv.Quote(string(u.access))
	}
	cap = &spec.VolumeCapability{AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode}}
	switch u.attachment {
	case structs.CSIBlockDevice:
		cap.AccessType = &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}}
		return cap, ""
	case structs.CSIFileSystem:
	default:
		return nil, "no attachment mode " + strconv.Quote(string(u.attachment))
	}
	mount := &spec.VolumeCapability_MountVolume{VolumeMountGroup: u.group}
	if u.options != nil {
		mount.FsType, mount.MountFlags = u.options.FSType, u.options.MountFlags
	}
	cap.AccessType = &spec.VolumeCapability_Mount{Mount: mount}
	return cap, flagsFault(mount.MountFlags)
}

// capabilities renders the uses a volume is made for.
func capabilities(
	list []*structs.CSIVolumeCapability, options *structs.CSIMountOptions, fine bool,
) (caps []*spec.VolumeCapability, fault string) {
	for _, l := range list {
		if l == nil {
			continue
		}
		cap, fault := capabilityUse{l.AccessMode, l.AttachmentMode, options, ""}.capability(fine)
		if fault != "" {
			return nil, fault
		}
		caps = append(caps, cap)
	}
	if len(caps) == 0 {
		return nil, "no capability is given"
	}
	return caps, ""
}

func toRange(r structs.CSICapacityRange) *spec.CapacityRange {
	if r.RequiredBytes == 0 && r.LimitBytes == 0 {
		return nil
	}
	return &spec.CapacityRange{RequiredBytes: r.RequiredBytes, LimitBytes: r.LimitBytes}
}

func toTopology(t *structs.CSITopology) *spec.Topology {
	if t == nil {
		return nil
	}
	return &spec.Topology{Segments: t.Segments}
}

func fromTopology(t *spec.Topology) *structs.CSITopology {
	if len(t.GetSegments()) == 0 {
		return nil
	}
	return &structs.CSITopology{Segments: t.GetSegments()}
}

func fromTopologies(ts []*spec.Topology) []*structs.CSITopology {
	var out []*structs.CSITopology
	for _, t := range ts {
		if s := fromTopology(t); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// toRequirement renders a topology requirement. Every preferred place is also a required one where
// required ones are given, as the specification wants it.
func toRequirement(r *structs.CSITopologyRequest) *spec.TopologyRequirement {
	if r == nil || len(r.Required)+len(r.Preferred) == 0 {
		return nil
	}
	req := &spec.TopologyRequirement{}
	for _, t := range r.Required {
		req.Requisite = append(req.Requisite, toTopology(t))
	}
	for _, t := range r.Preferred {
		req.Preferred = append(req.Preferred, toTopology(t))
		if len(r.Required) > 0 && !contains(r.Required, t) {
			req.Requisite = append(req.Requisite, toTopology(t))
		}
	}
	return req
}

func contains(list []*structs.CSITopology, t *structs.CSITopology) bool {
	return slices.ContainsFunc(list, func(l *structs.CSITopology) bool { return l.Matches(t) && t.Matches(l) })
}

func toSource(cloneID, snapshotID string) *spec.VolumeContentSource {
	switch {
	case snapshotID != "":
		return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Snapshot{
			Snapshot: &spec.VolumeContentSource_SnapshotSource{SnapshotId: snapshotID}}}
	case cloneID != "":
		return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Volume{
			Volume: &spec.VolumeContentSource_VolumeSource{VolumeId: cloneID}}}
	}
	return nil
}
