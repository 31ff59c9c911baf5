package events

// reasons has a reason for types of events of berth's own, where neither the row nor the command tells one.
var reasons = map[string]string{
	"AttachmentUpdated":    "its node or the servers have reported on it",
	"ClaimRequested":       "an allocation needs the volume",
	"ClaimUpdated":         "its node or the servers have reported on it",
	"ClockRight":           "it is that of the cluster time again, or the server is gone",
	"FenceBegun":           "the node is lost",
	"FenceDeleted":         "the node has other fences since, or is gone",
	"FenceFailed":          "the device has not proved that the node can no longer write",
	"FenceOrdered":         "an operator has ordered it",
	"FenceOrderEnded":      "its fence has ended, or the node has come back",
	"FenceProved":          "the device has proved that the node can no longer write",
	"FenceVoid":            "the node has come back meanwhile",
	"InstanceDeregistered": "no allocation of the plugin runs on the node any more",
	"InstanceHealthy":      "its probe has succeeded",
	"InstanceRegistered":   "an allocation of the plugin runs on the node",
	"InstanceUnhealthy":    "its probe has failed",
	"InstanceUpdated":      "its node has reported on it",
	"SnapshotDeleted":      "its plugin or its row has it no more",
	"SnapshotFailed":       "its plugin has rejected it",
	"SnapshotReady":        "its plugin has finished it",
	"SnapshotRequested":    "a user or a schedule has asked for it",
	"SnapshotUpdated":      "its plugin or the servers have reported on it",
}
