package nodecalls

import "berth/structs"

// ClientCSIControllerGet makes a node call ControllerGetVolume. The error is not-found if the plugin has no
// such volume.
var ClientCSIControllerGet = structs.Read[ClientCSIGetVolumeRequest, ClientCSIGetVolumeResponse](
	"ClientCSI.ControllerGetVolume")

// ClientCSIGetVolumeRequest names the volume.
type ClientCSIGetVolumeRequest struct {
	PluginID             string `level:"2"`
	ExternalID           string `level:"2"`
	Provider             string `level:"2"`
	CallTimeout          `level:"2"`
	structs.QueryOptions `level:"2"`
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGetVolumeRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIGetVolumeResponse has the volume as the plugin describes it.
type ClientCSIGetVolumeResponse struct {
	Volume *structs.CSIVolumeExternalStub `level:"2"`
	structs.QueryMeta
}
