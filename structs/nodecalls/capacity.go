package nodecalls

import "berth/structs"

// ClientCSIControllerCapacity makes a node call GetCapacity.
var ClientCSIControllerCapacity = structs.Read[ClientCSICapacityRequest, ClientCSICapacityResponse](
	"ClientCSI.ControllerGetCapacity")

// ClientCSICapacityRequest describes the volumes for which there is to be space: as a creation would ask for
// them.
type ClientCSICapacityRequest struct {
	PluginID             string                       `level:"2"`
	Parameters           map[string]string            `level:"2"`
	Capability           *structs.CSIVolumeCapability `level:"2"`
	MountOptions         *structs.CSIMountOptions     `level:"2"`
	Topology             *structs.CSITopology         `level:"2"` // nil: anywhere
	Provider             string                       `level:"2"`
	CallTimeout          `level:"2"`
	structs.QueryOptions `level:"2"`
}

// Driver implements CSIControllerRequest.
func (r *ClientCSICapacityRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSICapacityResponse has the sizes in bytes, at least 0.
type ClientCSICapacityResponse struct {
	Available int64 `level:"2"`
	MaxVolume int64 `level:"2"` // 0: the plugin does not tell
	structs.QueryMeta
}
