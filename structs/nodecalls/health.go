package nodecalls

import (
	"berth/structs"
	"berth/structs/volumeusage"
)

// ClientCSIListHealth makes a node call ControllerListVolumeHealth.
var ClientCSIListHealth = structs.Read[ClientCSIListHealthRequest, ClientCSIListHealthResponse](
	"ClientCSI.ControllerListVolumeHealth")

// ClientCSIListHealthRequest names the plugin and the page.
type ClientCSIListHealthRequest struct {
	PluginID             string `level:"2"`
	MaxEntries           int32  `level:"2"`
	StartingToken        string `level:"2"`
	Provider             string `level:"2"`
	CallTimeout          `level:"2"`
	structs.QueryOptions `level:"2"`
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIListHealthRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIListHealthResponse has the page.
type ClientCSIListHealthResponse struct {
	Volumes   []*CSIListedHealth `level:"2"`
	NextToken string             `level:"2"`
	structs.QueryMeta
}

// CSIListedHealth is the health of a volume in a list.
type CSIListedHealth struct {
	ExternalID string                       `level:"2"`
	Condition  *volumeusage.VolumeCondition `level:"2"`
}

// ClientCSIGetHealth makes a node call ControllerGetVolumeHealth. The error is not-found if the plugin has no
// such volume.
var ClientCSIGetHealth = structs.Read[ClientCSIGetHealthRequest, ClientCSIGetHealthResponse](
	"ClientCSI.ControllerGetVolumeHealth")

// ClientCSIGetHealthRequest names the volume.
type ClientCSIGetHealthRequest struct {
	PluginID             string          `level:"2"`
	ExternalID           string          `level:"2"`
	Secrets              structs.Secrets `codec:"Secrets" level:"2"`
	Provider             string          `level:"2"`
	CallTimeout          `level:"2"`
	structs.QueryOptions `level:"2"`
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGetHealthRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIGetHealthResponse has the health as the controller sees it.
type ClientCSIGetHealthResponse struct {
	Condition *volumeusage.VolumeCondition `level:"2"`
	structs.QueryMeta
}
