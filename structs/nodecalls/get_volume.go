package nodecalls

import "berth/structs"

// ClientCSIControllerGet makes a node call ControllerGetVolume. The error is not-found if the plugin has no
// such volume.
var ClientCSIControllerGet = structs.Read[ClientCSIGetVolumeRequest, ClientCSIGetVolumeResponse](
	"ClientCSI.ControllerGetVolume")

// ClientCSIGetVolumeRequest names the volume.
type ClientCSIGetVolumeRequest struct {
	PluginID   string
	ExternalID string
	Provider   string
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGetVolumeRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIGetVolumeResponse has the volume as the plugin describes it.
type ClientCSIGetVolumeResponse struct {
	Volume *structs.CSIVolumeExternalStub
	structs.QueryMeta
}
