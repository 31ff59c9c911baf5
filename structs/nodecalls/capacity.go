package nodecalls

import "berth/structs"

// ClientCSIControllerCapacity makes a node call GetCapacity.
var ClientCSIControllerCapacity = structs.Read[ClientCSICapacityRequest, ClientCSICapacityResponse](
	"ClientCSI.ControllerGetCapacity")

// ClientCSICapacityRequest describes the volumes for which there is to be space: as a creation would ask for
// them.
type ClientCSICapacityRequest struct {
	PluginID     string
	Parameters   map[string]string
	Capability   *structs.CSIVolumeCapability
	MountOptions *structs.CSIMountOptions
	Topology     *structs.CSITopology // nil: anywhere
	Provider     string
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSICapacityRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSICapacityResponse has the sizes in bytes, at least 0.
type ClientCSICapacityResponse struct {
	Available int64
	MaxVolume int64 // 0: the plugin does not tell
	structs.QueryMeta
}
