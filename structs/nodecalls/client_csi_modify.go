package nodecalls

import "berth/structs"

// ClientCSIControllerModify makes a node call ControllerModifyVolume.
var ClientCSIControllerModify = structs.Write[ClientCSIModifyRequest, structs.Empty](
	"ClientCSI.ControllerModifyVolume")

// ClientCSIModifyRequest names the volume and the intended value of each parameter to change. The others stay
// as they are. At least one is given.
type ClientCSIModifyRequest struct {
	PluginID          string
	ExternalID        string
	MutableParameters map[string]string
	Secrets           structs.Secrets `codec:"Secrets"`
	Provider          string          `json:",omitempty"`
	structs.NodeEpoch
	CallTimeout
	structs.WriteOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIModifyRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}
