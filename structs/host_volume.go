package structs

import (
	"maps"
	"slices"
)

// VolumeTypeHost is the type of a volume that is a directory of the node.
const VolumeTypeHost = "host"

// HostVolume is a directory of a node that its configuration offers to jobs under a name.
type HostVolume struct {
	Path     string // absolute
	ReadOnly bool   // jobs can only read it
}

// HostVolumeID returns the ID of the dynamic host volume with a name on a node. So a node has at most one
// volume of a name in a namespace.
func HostVolumeID(namespace, nodeID, name string) string {
	return DeriveID(0, "host volume", namespace, nodeID, name)
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

// SameHostVolumes reports whether two nodes offer the same host volumes.
func SameHostVolumes(a, b *Node) bool {
	return maps.EqualFunc(a.HostVolumes, b.HostVolumes, func(x, y *HostVolume) bool {
		return x == y || x != nil && y != nil && *x == *y
	})
}
