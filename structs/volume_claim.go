package structs

// ClaimCause says what holds a claim, or for what it waits: a constant below, and a text for users.
type ClaimCause struct {
	Cause     string
	CauseText string
}

// The causes of a waiting claim.
const (
	CauseVolume     = "volume"     // it is missing, or is being created or deleted
	CausePlugin     = "plugin"     // the plugin of the volume has not been healthy yet
	CauseExpansion  = "expansion"  // the volume grows while nobody uses it
	CauseClaims     = "claims"     // claims that it conflicts with are granted, or ahead of it
	CauseAttachment = "attachment" // the volume is still attached in another mode
	CauseNode       = "node"       // its node has no instance of the plugin, or another one has the volume
	CauseNext       = "next"       // nothing: it is about to be granted
)

// The causes of a granted claim.
const (
	CauseAttach     = "attach"      // the volume is being attached to the node
	CauseInUse      = "in-use"      // its allocation runs, or is to run
	CauseNodeDown   = "node-down"   // its node is down
	CauseNodeGone   = "node-gone"   // its node has no row
	CausePluginGone = "plugin-gone" // its allocation has ended, and its plugin has no row
	CausePluginSick = "plugin-sick" // its allocation has ended, and no healthy plugin unmounts the volume
	CauseFailing    = "failing"     // its allocation has ended, and the node fails to release the volume
	CauseReleasing  = "releasing"   // its allocation has ended, and the node releases the volume
)

// VolumeClaimList lists claims with their causes.
var VolumeClaimList = Read[VolumeClaimListRequest, VolumeClaimListResponse]("VolumeClaim.List")

// VolumeClaimListRequest selects the claims of a volume, of a node and of an allocation. "" selects all.
type VolumeClaimListRequest struct {
	VolumeID string
	NodeID   string
	AllocID  string
	QueryOptions
}

// VolumeClaimListResponse has the claims volume by volume, and within a volume in the order of its queue.
type VolumeClaimListResponse struct {
	Claims []*VolumeClaimStub
	QueryMeta
}

// VolumeClaimStub is a claim in a list.
type VolumeClaimStub struct {
	ID             string // as in the dialect: see ClaimID
	Namespace      string
	VolumeID       string
	AllocID        string
	NodeID         string
	NodeName       string `json:",omitempty"`
	PluginID       string
	JobID          string
	TaskGroupName  string // as in the dialect
	Mode           string // ClaimRead or ClaimWrite
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	State          string // ClaimWaiting or ClaimGranted
	Position       int    `json:",omitempty"` // of a waiting claim in the queue of its volume, from 1
	Since          int64  // UnixNano: of the grant, or of the beginning of the wait
	ClaimCause
	Indexes
}

// ClaimID names a claim within its namespace. It begins with the ID of the allocation.
func ClaimID(volume, alloc string) string { return alloc + "." + volume }

// VolumeClaimRelease releases one claim. The node of the claim has to confirm that it has nothing of the
// volume mounted.
var VolumeClaimRelease = Write[VolumeClaimReleaseRequest, VolumeClaimReleaseResponse]("VolumeClaim.Release")

// VolumeClaimForce releases one claim although its node does not confirm it: an operator asserts that the
// node does not write.
var VolumeClaimForce = Write[VolumeClaimReleaseRequest, VolumeClaimReleaseResponse]("VolumeClaim.Force")

// VolumeClaimReleaseRequest names the claim. DryRun changes nothing, and with Force it tells what
// VolumeClaimForce would do; only a dry run has Force.
type VolumeClaimReleaseRequest struct {
	VolumeID string
	AllocID  string
	DryRun   bool
	Force    bool
	Reason   string // recorded
	By       string // the name of the operator, unverified; recorded
	// Shown is that of CSIVolumeDetachRequest.
	Shown *DetachShown `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// DetachNeverGranted is the proof of the release of a claim that waited: no node has used it.
const DetachNeverGranted = "never-granted"

// VolumeClaimReleaseResponse has the proof of a release (see DetachNotMounted) with a sentence. A dry run
// has the rest: the steps of the release, the facts that nothing proves, and why it would be rejected.
type VolumeClaimReleaseResponse struct {
	Proof    string
	Detail   string
	Steps    []string `json:",omitempty"`
	Unproved []string `json:",omitempty"`
	Rejected string   `json:",omitempty"`
	WriteMeta
}
