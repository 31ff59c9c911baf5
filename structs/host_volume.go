package structs

import (
	"maps"
	"path/filepath"
	"slices"
)

// VolumeTypeHost is the type of a volume that is a directory of the node.
const VolumeTypeHost = "host"

// The access modes of a host volume that only it has. It may also have CSISingleNodeReader and
// CSISingleNodeWriter, or none, which is CSISingleNodeMultiWriter.
const (
	CSISingleNodeSingleWriter CSIAccessMode = "single-node-single-writer"
	CSISingleNodeMultiWriter  CSIAccessMode = "single-node-multi-writer"
)

var hostAccessModes = []CSIAccessMode{
	"",
	CSISingleNodeReader,
	CSISingleNodeWriter,
	CSISingleNodeSingleWriter,
	CSISingleNodeMultiWriter,
}

// HostVolume is a directory of a node that its configuration offers to jobs under a name.
type HostVolume struct {
	Path     string // absolute
	ReadOnly bool   // jobs can only read it
}

// HostVolumes lists the requests of a group for host volumes, by alias.
func (g *TaskGroup) HostVolumes() []*VolumeRequest {
	var requests []*VolumeRequest
	if len(g.Volumes) == 0 {
		return nil // without the memory of sorted keys
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		r := g.Volumes[alias]
		if r != nil && r.Type == VolumeTypeHost {
			requests = append(requests, r)
		}
	}
	return requests
}

// excludesWriters reports whether the request allows no other writer of its host volume.
func (r *VolumeRequest) excludesWriters() bool {
	return !r.ReadOnly &&
		(r.AccessMode == CSISingleNodeWriter || r.AccessMode == CSISingleNodeSingleWriter)
}

// Excludes reports whether two requests for host volumes exclude each other: both write one volume, and one
// of them allows no other writer.
func (r *VolumeRequest) Excludes(o *VolumeRequest) bool {
	return o.Source == r.Source && !o.ReadOnly && !r.ReadOnly &&
		(o.excludesWriters() || r.excludesWriters())
}

// HostVolumeConflict returns the name of a host volume that an allocation of g and one of other cannot both
// have on one node, "" if there is none: both write it, and one of them allows no other writer.
func (g *TaskGroup) HostVolumeConflict(other *TaskGroup) string {
	if g == nil || other == nil {
		return ""
	}
	ours := g.HostVolumes()
	if len(ours) == 0 {
		return ""
	}
	theirs := other.HostVolumes()
	for _, r := range ours {
		if slices.ContainsFunc(theirs, r.Excludes) {
			return r.Source
		}
	}
	return ""
}

// SameHostVolumes reports whether two nodes offer the same host volumes.
func SameHostVolumes(a, b *Node) bool {
	return maps.EqualFunc(a.HostVolumes, b.HostVolumes, func(x, y *HostVolume) bool {
		return x == y || x != nil && y != nil && *x == *y
	})
}

// Validate checks the name and the path of a host volume.
func (v *HostVolume) Validate(name string) error {
	f := newFieldErrors("host_volume %q", name)
	v.validate(f, name)
	return f.err()
}

func (v *HostVolume) validate(f fieldErrors, name string) {
	f.checkName("name", name)
	if v == nil {
		f.addf("it is null")
		return
	}
	f.checkText("path", v.Path)
	f.require(filepath.IsAbs(v.Path), "path %q is not absolute", v.Path)
}

// validateHost checks a request for a host volume.
func (r *VolumeRequest) validateHost(f fieldErrors) {
	f.require(slices.Contains(hostAccessModes, r.AccessMode),
		"access_mode %q is not one of a host volume: %s, %s, %s, %s", r.AccessMode,
		CSISingleNodeReader, CSISingleNodeWriter, CSISingleNodeSingleWriter, CSISingleNodeMultiWriter)
	f.require(r.AccessMode != CSISingleNodeReader || r.ReadOnly,
		"access_mode %s needs read_only = true", r.AccessMode)
	f.require(r.AttachmentMode == "" || r.AttachmentMode == CSIFileSystem,
		"attachment_mode %q is not for host volumes: they are directories", r.AttachmentMode)
	f.require(r.MountOptions == nil, "mount_options is not for host volumes: the machine has mounted them")
	f.require(!r.PerAlloc, "per_alloc is not for host volumes")
}
