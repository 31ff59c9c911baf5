package csi

import (
	"slices"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
)

// accessModes are the modes on the wire. Use.capability replaces the one that newer plugins call ambiguous.
var accessModes = map[structs.CSIAccessMode]spec.VolumeCapability_AccessMode_Mode{
	structs.CSISingleNodeReader:        spec.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	structs.CSISingleNodeWriter:        spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	structs.CSISingleNodeSingleWriter:  spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
	structs.CSISingleNodeMultiWriter:   spec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	structs.CSIMultiNodeReader:         spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	structs.CSIMultiNodeSingleWriter:   spec.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
	structs.CSIMultiNodeMultipleWriter: spec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
}

// capability encodes a use. fault is the reason if it cannot. fine means that the plugin knows
// SINGLE_NODE_MULTI_WRITER: then SINGLE_NODE_WRITER is ambiguous.
func (u *Use) capability(fine bool) (cap *spec.VolumeCapability, fault string) {
	mode, ok := accessModes[u.AccessMode]
	if !ok {
		return nil, "no access mode " + strconv.Quote(string(u.AccessMode))
	}

	// Such a plugin also knows SINGLE_NODE_SINGLE_WRITER, which says exactly what the job means.
	coarse := mode == spec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	switch {
	case fine && coarse:
		mode = spec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	case !fine && u.AccessMode == structs.CSISingleNodeMultiWriter:
		return nil, structs.NoMultiWriter
	}

	cap = &spec.VolumeCapability{AccessMode: &spec.VolumeCapability_AccessMode{Mode: mode}}
	switch u.AttachmentMode {
	case structs.CSIBlockDevice:
		cap.AccessType = &spec.VolumeCapability_Block{Block: &spec.VolumeCapability_BlockVolume{}}
		return cap, ""
	case structs.CSIFileSystem:
	default:
		return nil, "no attachment mode " + strconv.Quote(string(u.AttachmentMode))
	}

	mount := &spec.VolumeCapability_MountVolume{VolumeMountGroup: u.MountGroup}
	if u.MountOptions != nil {
		// The plugin chooses the file system if the type is empty.
		mount.FsType = u.MountOptions.FSType
		mount.MountFlags = u.MountOptions.MountFlags
	}

	cap.AccessType = &spec.VolumeCapability_Mount{Mount: mount}
	return cap, flagsFault(mount.MountFlags)
}

// capabilities encodes the uses for which a volume is made.
func capabilities(
	list []*structs.CSIVolumeCapability, options *structs.CSIMountOptions, fine bool,
) (caps []*spec.VolumeCapability, fault string) {
	for _, l := range list {
		// The list comes from a request on the wire, where an element may be nil.
		if l == nil {
			continue
		}

		u := &Use{
			AccessMode:     l.AccessMode,
			AttachmentMode: l.AttachmentMode,
			MountOptions:   options,
		}

		cap, fault := u.capability(fine)
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

// toRange returns nil for an empty range, which leaves the size to the plugin.
func toRange(r nodecalls.CSICapacityRange) *spec.CapacityRange {
	if r.RequiredBytes == 0 && r.LimitBytes == 0 {
		return nil
	}
	return &spec.CapacityRange{
		RequiredBytes: r.RequiredBytes,
		LimitBytes:    r.LimitBytes,
	}
}

func toTopology(t *structs.CSITopology) *spec.Topology {
	if t == nil {
		return nil
	}
	return &spec.Topology{Segments: t.Segments}
}

// fromTopology returns nil for a topology without segments: it restricts nothing.
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

// toRequirement encodes a topology requirement. If required topologies are given, each preferred one is also
// required, as the specification demands.
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
		equal := func(l *structs.CSITopology) bool {
			return l.Matches(t) && t.Matches(l)
		}
		if len(r.Required) > 0 &&
			!slices.ContainsFunc(r.Required, equal) {
			req.Requisite = append(req.Requisite, toTopology(t))
		}
	}

	return req
}

// toSource encodes the source of a volume. sourceFault has rejected a request with two sources.
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
