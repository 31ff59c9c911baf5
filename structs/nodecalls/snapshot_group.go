package nodecalls

import (
	"berth/structs"
	"berth/structs/storage"
)

// ClientCSIGroupCreate makes a node call CreateVolumeGroupSnapshot.
var ClientCSIGroupCreate = structs.Write[ClientCSIGroupRequest, ClientCSIGroupResponse](
	"ClientCSI.ControllerCreateGroupSnapshot")

// ClientCSIGroupRequest describes the group. The same Name is the same group.
type ClientCSIGroupRequest struct {
	PluginID          string
	Name              string
	SourceExternalIDs []string // the plugin's volume_ids of the sources
	Parameters        map[string]string
	Secrets           structs.Secrets `codec:"Secrets"`
	Provider          string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGroupRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIGroupResponse describes the group that the plugin has cut.
type ClientCSIGroupResponse struct {
	Group *storage.CSIGroup
	// Exhausted is the plugin's message if it answered RESOURCE_EXHAUSTED: there is no space for the group.
	Exhausted string `json:",omitempty"`
	structs.WriteMeta
}

// ClientCSIGroupDelete makes a node call DeleteVolumeGroupSnapshot. It succeeds if the group does not exist.
var ClientCSIGroupDelete = structs.Write[ClientCSIGroupDeleteRequest, structs.Empty](
	"ClientCSI.ControllerDeleteGroupSnapshot")

// ClientCSIGroupDeleteRequest names the group with the exact list of its snapshots. No other call for the
// sources is in flight meanwhile.
type ClientCSIGroupDeleteRequest struct {
	PluginID          string
	ExternalID        string
	SnapshotIDs       []string
	SourceExternalIDs []string
	Secrets           structs.Secrets `codec:"Secrets"`
	Provider          string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGroupDeleteRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}
