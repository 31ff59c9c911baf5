package nodecalls

import (
	"berth/structs"
	"berth/structs/storage"
)

// ClientCSIListHealth makes a node call ControllerListVolumeHealth.
var ClientCSIListHealth = structs.Read[ClientCSIListHealthRequest, ClientCSIListHealthResponse](
	"ClientCSI.ControllerListVolumeHealth")

// ClientCSIListHealthRequest names the plugin and the page.
type ClientCSIListHealthRequest struct {
	PluginID      string
	MaxEntries    int32
	StartingToken string
	Provider      string
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIListHealthRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIListHealthResponse has the page.
type ClientCSIListHealthResponse struct {
	Volumes   []*CSIListedHealth
	NextToken string
	structs.QueryMeta
}

// CSIListedHealth is the health of a volume in a list.
type CSIListedHealth struct {
	ExternalID string
	Condition  *storage.VolumeCondition
}

// ClientCSIGetHealth makes a node call ControllerGetVolumeHealth. The error is not-found if the plugin has no
// such volume.
var ClientCSIGetHealth = structs.Read[ClientCSIGetHealthRequest, ClientCSIGetHealthResponse](
	"ClientCSI.ControllerGetVolumeHealth")

// ClientCSIGetHealthRequest names the volume.
type ClientCSIGetHealthRequest struct {
	PluginID   string
	ExternalID string
	Secrets    structs.Secrets `codec:"Secrets"`
	Provider   string
	CallTimeout
	structs.QueryOptions
}

// Driver implements CSIControllerRequest.
func (r *ClientCSIGetHealthRequest) Driver() (string, *string) {
	return r.PluginID, &r.Provider
}

// ClientCSIGetHealthResponse has the health as the controller sees it.
type ClientCSIGetHealthResponse struct {
	Condition *storage.VolumeCondition
	structs.QueryMeta
}
