package structs

import (
	"time"
)

// The states of a claim. Releasing a claim deletes it, so no state follows granted.
const (
	ClaimWaiting = "waiting" // in the queue; Reason names the blocker
	ClaimGranted = "granted"
)

// The modes of a claim.
const (
	ClaimRead  = "read"
	ClaimWrite = "write"
)

// CSIClaim is the request of one allocation to use one volume. Key: (Namespace, VolumeID, AllocID). It begins
// waiting or granted, and is deleted when the node has released the volume. The order of a volume's queue is
// CreateIndex, then Seq.
type CSIClaim struct {
	Namespace      string
	VolumeID       string
	AllocID        string
	NodeID         string
	PluginID       string
	JobID          string
	TaskGroup      string
	Mode           string // ClaimRead or ClaimWrite
	AccessMode     CSIAccessMode
	AttachmentMode CSIAttachmentMode
	State          string
	Reason         string `json:",omitempty"` // of a waiting claim: its blocker at its last evaluation
	Seq            int    // position within the log entry that made it
	GrantIndex     uint64 // Raft index of the grant: grows with every grant of a volume (a fencing token)
	CreateTime     int64
	GrantTime      int64
	// Guarded says that the node ends every task of the allocation, unpublishes and unstages the volume when
	// its lease ends, also without its agent. Only such a claim can be released by the end of a lease.
	Guarded bool `json:",omitempty"`
	// Unguarded is the reason for which the node does not guard the claim although the policy of the volume
	// is LossLease: the volume then holds. Such a claim is never Guarded any more.
	Unguarded string `json:",omitempty"`
	// UnixNano; when its allocation ended, for one that is not yet released
	EndTime int64 `json:",omitempty"`
	// ExpandBytes is the size to which the node still has to expand the allocation's view of the volume.
	ExpandBytes int64 `json:",omitempty"`
	// ExpandError is the last failure of that. With ExpandBytes 0 the node does not retry before the next
	// mount.
	ExpandError *OperationError `json:",omitempty"`
	// ReleaseError is the node's own reason for not releasing the volume yet.
	ReleaseError *OperationError `json:",omitempty"`
	Indexes
}

// Copy returns a copy.
func (c *CSIClaim) Copy() *CSIClaim { return clonePtr(c) }

// Key names the claim.
func (c *CSIClaim) Key() CSIClaimKey {
	return CSIClaimKey{
		Namespace: c.Namespace,
		VolumeID:  c.VolumeID,
		AllocID:   c.AllocID,
	}
}

// CSIClaimKey names a claim.
type CSIClaimKey struct {
	Namespace string
	VolumeID  string
	AllocID   string
}

// CSIVolumeClaim creates claims, of one allocation or of many. Each is granted or put into the claim queue.
var CSIVolumeClaim = Write[CSIVolumeClaimRequest, CSIVolumeClaimResponse]("CSIVolume.Claim")

// CSIVolumeClaimRequest has the claims. A claim that exists with the same modes stays as it is. With other
// modes the error is a conflict. One claim that can never be granted rejects the whole request.
type CSIVolumeClaimRequest struct {
	Claims   []*CSIClaim
	NodeID   string
	SecretID string
	NodeEpoch
	// The newest mark of the agent is the node's from now on: see Node.
	FromAgent
	WriteOptions
}

// CSIVolumeClaimResponse has the claims as they are after the request, in its order.
type CSIVolumeClaimResponse struct {
	Claims []*CSIClaim
	WriteMeta
}

// CSIVolumeUnpublish deletes the claims of volumes that a node has released.
var CSIVolumeUnpublish = Write[CSIVolumeUnpublishRequest, Empty]("CSIVolume.Unpublish")

// CSIVolumeUnpublishRequest reports that the node has released the volumes for these allocations: every path
// is unpublished, and the volume is unstaged if no other allocation on the node uses it. A claim that does
// not exist is released already. Operator names a user who decided this without the node.
type CSIVolumeUnpublishRequest struct {
	Claims []CSIClaimKey
	// the Claims under which the volume's file system turned read-only
	TurnedReadOnly []CSIClaimKey `json:",omitempty"`
	NodeID         string
	SecretID       string
	NodeEpoch
	FromAgent
	Operator string // the reason, when an operator forced it; kept in the log
	WriteOptions
}

// CSIVolumeDetach makes a node release a volume whose allocations there have ended.
var CSIVolumeDetach = Write[CSIVolumeDetachRequest, CSIVolumeDetachResponse]("CSIVolume.Detach")

// CSIVolumeDetachRequest names the volume and the node. Force releases the claims although the node cannot
// answer; By and Reason are recorded.
type CSIVolumeDetachRequest struct {
	VolumeID string
	NodeID   string
	Force    bool
	Reason   string
	By       string // the name of the operator, unverified
	// Shown is the state on which a forced request was decided, nil if the caller does not tell.
	Shown *DetachShown `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// DetachShown is the state of a node and a volume that the caller of a forced detach has seen: the epoch of
// the node, which every loss of the node ends, and the allocations with a claim on the volume there. What
// has changed since then was not decided about.
type DetachShown struct {
	Epoch  uint64
	Allocs []string
}

// The proofs of a detach.
const (
	DetachNothingHeld = "nothing-held" // no claim and no attachment named the node
	DetachLetGo       = "let-go"       // the node itself: nothing of it is mounted there
	// forced; the node: nothing is mounted, but the plugin did not confirm its end
	DetachNotMounted = "not-mounted"
	DetachVouched    = "vouched"   // forced; no plugin and no node was called
	DetachForgotten  = "forgotten" // forced; the plugin's controller never confirmed the detach
	DetachPending    = "pending"   // the plugin's controller is called again now
)

// CSIVolumeDetachResponse names the proof, as one of the constants above and as a sentence.
type CSIVolumeDetachResponse struct {
	Proof  string
	Detail string
	WriteMeta
}

// CSIClaimGet reads one claim with all that a node needs to use it.
var CSIClaimGet = Read[CSIClaimGetRequest, CSIClaimGetResponse]("CSIVolume.GetClaim")

// CSIClaimGetRequest names the claim. With MinIndex set the answer waits until the claim or its attachment
// has changed.
type CSIClaimGetRequest struct {
	VolumeID string
	AllocID  string
	NodeID   string // the claim's node: only this node gets an answer, which has secrets
	SecretID string
	NodeEpoch
	QueryOptions
}

// CSIClaimGetResponse has the claim, its volume with secrets, and its attachment. Ready reports that the
// claim is granted and, if the plugin attaches, that the attachment is attached: the node may stage the
// volume.
type CSIClaimGetResponse struct {
	Claim      *CSIClaim
	Volume     *CSIVolume
	Attachment *CSIAttachment // nil where the plugin does not attach
	Ready      bool
	Blocked    string // why not ready, for users
	Provider   string `json:",omitempty"` // when Ready: the driver that the volume's plugin belongs to
	// LossPolicy says who releases the volume if the node is lost, as LossHold does; "" if not known.
	LossPolicy string `json:",omitempty"`
	// CallTimeout ends each call of the plugin's node half, 0 without a setting.
	CallTimeout time.Duration `json:",omitempty" codec:",omitempty"`
	QueryMeta
}

// CSIClaimList lists claims.
var CSIClaimList = Read[CSIClaimListRequest, CSIClaimListResponse]("CSIVolume.ListClaims")

// CSIClaimListRequest is the request for claims: of one volume, of one node, or of a namespace.
type CSIClaimListRequest struct {
	VolumeID string
	NodeID   string
	QueryOptions
}

// CSIClaimListResponse has the claims, in queue order for one volume.
type CSIClaimListResponse struct {
	Claims []*CSIClaim
	QueryMeta
}

// The states of an attachment. The two that are unsettled are work for the leader.
const (
	AttachmentAttaching = "attaching" // ControllerPublishVolume is wanted
	AttachmentAttached  = "attached"
	AttachmentDetaching = "detaching" // ControllerUnpublishVolume is wanted; deleted when it is done
)

// CSIAttachment is a volume that the plugin's controller makes, or has made, reachable from a node (CSI spec,
// ControllerPublishVolume). Key: (Namespace, VolumeID, NodeID). It has all that a detach needs, so that a
// detach works when the rows of node, volume or plugin have changed or are deleted.
type CSIAttachment struct {
	Namespace        string
	VolumeID         string
	NodeID           string
	PluginID         string
	ExternalVolumeID string
	ExternalNodeID   string // the plugin's own name of the node
	AccessMode       CSIAccessMode
	AttachmentMode   CSIAttachmentMode
	ReadOnly         bool
	MountOptions     *CSIMountOptions
	VolumeContext    map[string]string
	// of the attach, for the detach (CSI spec, ControllerUnpublishVolumeRequest.secrets)
	Secrets        Secrets `codec:"Secrets"`
	SealedSecrets  *Sealed `json:"-" codec:"SealedSecrets,omitempty"` // see CSIVolume.SealedSecrets
	State          string
	PublishContext Secrets         `codec:"PublishContext"` // opaque, for stage and publish
	LastError      *OperationError `json:",omitempty"`
	// Found marks an attachment that no claim made: a node, the plugin or an operator named it. It is detaching.
	Found bool `json:",omitempty"`
	// Forced marks an attachment whose claim was released without its node. No claim that excludes others is
	// granted before the detach has succeeded.
	Forced     bool `json:",omitempty"`
	CreateTime int64
	ModifyTime int64
	Call       *CSICall `json:",omitempty"` // an attach or detach with an unknown outcome
	Indexes
}

// Unsettled reports whether the leader still has a call to make for the attachment.
func (a *CSIAttachment) Unsettled() bool {
	return a.State != AttachmentAttached
}

// Copy returns a copy with its own secrets and publish context. All else to which a refers is shared, and
// must not change.
func (a *CSIAttachment) Copy() *CSIAttachment {
	c := *a
	c.Secrets = a.Secrets.Copy()
	c.PublishContext = a.PublishContext.Copy()
	return &c
}

// CSIAttachmentOutcome records the outcome of an attach or a detach. Op is "attach" or "detach". The servers
// ignore the outcome of an operation that the row no longer demands. With Err nil the call succeeded.
type CSIAttachmentOutcome struct {
	VolumeID string
	NodeID   string
	Op       string
	// CreateIndex of the row for which the call was made: a later row has not seen this call; 0 for any
	RowIndex       uint64
	PublishContext Secrets `codec:"PublishContext"`
	Err            *OperationError
	KeepCall       bool // the outcome of the call that the row names is still not known
	WriteOptions
}

// CSICallNote records, before a call of a controller, the node that is called: a new leader then knows where
// to settle a call of unknown outcome. For a claim (AllocID set) it records instead the reason for which the
// node does not release the volume. It changes only the row of RowIndex.
type CSICallNote struct {
	VolumeID string
	NodeID   string // of the attachment or claim; "" for the volume itself
	AllocID  string // of the claim; "" otherwise
	RowIndex uint64 // CreateIndex of the row
	Call     *CSICall
	// of an attachment: the secrets of the call, nil: as they are
	Secrets       Secrets         `codec:"Secrets"`
	SealedSecrets *Sealed         `json:"-" codec:"SealedSecrets,omitempty"` // likewise
	Err           *OperationError // of the claim, nil: none any more
	WriteOptions
}

// CSIVolumeForceRequest releases a node's claims of a volume, or deletes its attachment, because an operator
// asserts that the node is off. The decision precedes the log entry. See CSIVolume.Detach.
type CSIVolumeForceRequest struct {
	VolumeID   string
	NodeID     string
	Claims     []CSIClaimKey
	Attachment uint64 // CreateIndex of the attachment to delete, 0 for none
	// Settle is how long after it was sent a controller call for the attachment may still take effect. 0 does
	// not wait for any.
	Settle time.Duration
	What   string // the decision and its evidence, as CSIForced keeps it
	By     string // the name of the operator, unverified
	Reason string
	// Shown is that of CSIVolumeDetachRequest.
	Shown *DetachShown `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// CSIVolumeNodeExpanded reports a call of NodeExpandVolume on a node.
var CSIVolumeNodeExpanded = Write[CSINodeExpandOutcome, Empty]("CSIVolume.NodeExpanded")

// CSINodeExpandOutcome records the outcome of NodeExpandVolume for one allocation. With Err nil the call
// succeeded, or the plugin's node half has nothing to expand.
type CSINodeExpandOutcome struct {
	VolumeID string
	AllocID  string
	NodeID   string
	SecretID string // of a node that reports; "" from the leader
	NodeEpoch
	FromAgent
	RowIndex uint64 // CreateIndex of the claim for which the call was made; 0 for any
	Bytes    int64  // the requested size
	Capacity int64  // the size that the plugin answered, 0 if it reported none
	Err      *OperationError
	WriteOptions
}

// CSIAttachmentsFound records attachments without a row: each gets a row that is detaching. Of an attachment
// the fields Namespace, VolumeID and NodeID are required. PluginID, ExternalVolumeID, ExternalNodeID and
// Secrets may be empty if the row of the volume or of a plugin instance has them. An attachment is ignored if
// it has a row, if a granted claim uses it, or if too little is known of it.
type CSIAttachmentsFound struct {
	Attachments []*CSIAttachment
	WriteOptions
}
