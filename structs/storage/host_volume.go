package storage

import (
	"cmp"

	"berth/structs"
)

// HostVolumeDriver is the provider of the plugins that serve dynamic host volumes.
const HostVolumeDriver = "hostpath.csi.berth.io"

// HostVolumeBuiltIn is the plugin ID that the dialect has for directories. It stands for the plugin of the
// HostVolumeDriver.
const HostVolumeBuiltIn = "mkdir"

// The states of a volume in the dialect.
const (
	HostVolumePending     = "pending" // it is being created
	HostVolumeReady       = "ready"
	HostVolumeUnavailable = "unavailable" // no allocation can use it now
)

// DynamicHostVolume is a dynamic host volume in the form of the dialect. Capacities are in bytes, times in
// UnixNano. A request has ID, NodeID or NodePool only to choose. The servers fill in the state, the
// capacity and the times.
type DynamicHostVolume struct {
	Namespace string
	ID        string
	Name      string // by which jobs name it; a node has one of a name
	PluginID  string // "" and HostVolumeBuiltIn: the plugin of the HostVolumeDriver
	// NodePool has the node, "" for the default one unless there is a NodeID.
	NodePool                  string
	NodeID                    string                // "": the servers choose one
	Constraints               []*structs.Constraint `json:",omitempty"`
	RequestedCapacityMinBytes int64
	RequestedCapacityMaxBytes int64
	CapacityBytes             int64
	RequestedCapabilities     []*structs.CSIVolumeCapability
	Parameters                map[string]string `json:",omitempty"`
	HostPath                  string            // always "": the plugin knows it
	State                     string
	// Reason is the reason for another state than HostVolumeReady.
	Reason     string `json:",omitempty"`
	CreateTime int64
	ModifyTime int64
	structs.Indexes
}

// DynamicHostVolumeDetail is a volume with the allocations that have it, or wait for it.
type DynamicHostVolumeDetail struct {
	DynamicHostVolume
	Allocations []*structs.AllocListStub `json:",omitempty"`
}

// DynamicHostVolumeStub is a volume in a list.
type DynamicHostVolumeStub struct {
	Namespace     string
	ID            string
	Name          string
	PluginID      string
	NodePool      string
	NodeID        string
	CapacityBytes int64
	State         string
	CreateTime    int64
	ModifyTime    int64
	structs.Indexes
}

// Canonicalize fills in the defaults and drops the fields of the servers. It is idempotent.
func (v *DynamicHostVolume) Canonicalize() {
	if v.NodePool == "" && v.NodeID == "" {
		v.NodePool = structs.DefaultNodePool
	}
	for i, c := range v.RequestedCapabilities {
		if c != nil && c.AttachmentMode == "" {
			own := *c
			own.AttachmentMode = structs.CSIFileSystem
			v.RequestedCapabilities[i] = &own
		}
	}
	v.HostPath = ""
	v.State = ""
	v.Reason = ""
	v.CapacityBytes = 0
	v.CreateTime = 0
	v.ModifyTime = 0
	v.Indexes = structs.Indexes{}
}

// Row returns the row to create for the volume on its node. The plugin has a topology for the node, nil for
// none.
func (v *DynamicHostVolume) Row(place *structs.CSITopology) *structs.CSIVolume {
	row := &structs.CSIVolume{
		ID: structs.HostVolumeID(v.Namespace, v.NodeID, v.Name), Namespace: v.Namespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:              v.PluginID,
			Parameters:            v.Parameters,
			RequestedCapacityMin:  v.RequestedCapacityMinBytes,
			RequestedCapacityMax:  v.RequestedCapacityMaxBytes,
			RequestedCapabilities: v.RequestedCapabilities,
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			Host: &structs.CSIHost{
				Name:        v.Name,
				NodePool:    v.NodePool,
				NodeID:      v.NodeID,
				Constraints: v.Constraints,
			},
		},
	}
	if place != nil {
		row.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{place}}
	}
	return row
}

// HostVolumeOf returns the form of a row in the dialect. blocked is the reason for which no allocation can
// use the volume, "" for none.
func HostVolumeOf(row *structs.CSIVolume, blocked string) *DynamicHostVolume {
	v := &DynamicHostVolume{
		Namespace:                 row.Namespace,
		ID:                        row.ID,
		Name:                      row.Host.Name,
		PluginID:                  row.PluginID,
		NodePool:                  row.Host.NodePool,
		NodeID:                    row.Host.NodeID,
		Constraints:               row.Host.Constraints,
		RequestedCapacityMinBytes: row.RequestedCapacityMin,
		RequestedCapacityMaxBytes: row.RequestedCapacityMax,
		CapacityBytes:             row.Capacity,
		RequestedCapabilities:     row.RequestedCapabilities,
		Parameters:                row.Parameters,
		State:                     HostVolumeReady,
		CreateTime:                row.CreateTime,
		ModifyTime:                row.ModifyTime,
		Indexes:                   row.Indexes,
	}
	switch {
	case row.State == structs.VolumeCreating:
		v.State = HostVolumePending
	case row.State != structs.VolumeReady || blocked != "":
		v.State = HostVolumeUnavailable
	}
	if v.State != HostVolumeReady {
		v.Reason = blocked
	}
	if v.State != HostVolumeReady && row.LastError != nil {
		v.Reason = cmp.Or(row.LastError.Message, blocked)
	}
	return v
}

// Stub returns the volume as lists show it.
func (v *DynamicHostVolume) Stub() *DynamicHostVolumeStub {
	return &DynamicHostVolumeStub{
		Namespace:     v.Namespace,
		ID:            v.ID,
		Name:          v.Name,
		PluginID:      v.PluginID,
		NodePool:      v.NodePool,
		NodeID:        v.NodeID,
		CapacityBytes: v.CapacityBytes,
		State:         v.State,
		CreateTime:    v.CreateTime,
		ModifyTime:    v.ModifyTime,
		Indexes:       v.Indexes,
	}
}
