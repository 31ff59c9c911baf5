package nodecalls

import "berth/structs"

// ClientCSIControllerModify makes a node call ControllerModifyVolume.
var ClientCSIControllerModify = structs.Write[ClientCSIModifyRequest, structs.Empty](
	"ClientCSI.ControllerModifyVolume")

// ClientCSIModifyRequest names the volume and the intended value of each parameter to change. The others stay
// as they are. At least one is given.
type ClientCSIModifyRequest struct {
	PluginID             string            `level:"2"`
	ExternalID           string            `level:"2"`
	MutableParameters    map[string]string `level:"2"`
	Secrets              structs.Secrets   `codec:"Secrets" level:"2"`
	Provider             string            `json:",omitempty" level:"2"`
	structs.NodeEpoch    `level:"2"`
	CallTimeout          `level:"2"`
	structs.WriteOptions `level:"2"`
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIModifyRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}
