package rejects

// The names of the filters, in the order of their application.
const (
	FilterEligibility = "eligibility"
	FilterDatacenter  = "datacenter"
	FilterPool        = "node-pool"
	FilterLevel       = "level"
	FilterDriver      = "driver"
	FilterConstraint  = "constraint"
	FilterDevice      = "device"
	FilterNetwork     = "network"
	FilterHostVolume  = "host-volume"
	FilterHosts       = "distinct-hosts"
	FilterProperty    = "distinct-property"
	FilterPlugin      = "csi-plugin"
	FilterVolume      = "csi-volume"
	FilterGuard       = "csi-guard"
	FilterLimit       = "csi-limit"
	FilterResources   = "resources"
	FilterQuota       = "quota"
)

// notCandidates are the filters whose rejection means that a node is no candidate of the job.
var notCandidates = map[string]bool{
	FilterEligibility: true,
	FilterDatacenter:  true,
	FilterPool:        true,
}
