package structs

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// CSIAttachmentMode is the form in which a task sees a volume.
type CSIAttachmentMode string

// The attachment modes.
const (
	CSIFileSystem  CSIAttachmentMode = "file-system"
	CSIBlockDevice CSIAttachmentMode = "block-device"
)

// Valid reports whether the mode is one of the two.
func (m CSIAttachmentMode) Valid() bool {
	return m == CSIFileSystem || m == CSIBlockDevice
}

// CSIVolumeCapability is one use for which a volume is made.
type CSIVolumeCapability struct {
	AttachmentMode CSIAttachmentMode
	AccessMode     CSIAccessMode
}

// CSIMountOptions are how a file-system volume is mounted. MountFlags may hold secrets: answers of the
// HTTP API show them as [REDACTED], and a put of that text keeps the flags stored.
type CSIMountOptions struct {
	FSType     string
	MountFlags []string
}

// Merge returns o with the fields that over sets; both may be nil. The result shares their flags.
func (o *CSIMountOptions) Merge(over *CSIMountOptions) *CSIMountOptions {
	switch {
	case o == nil:
		return over
	case over == nil:
		return o
	}
	m := *o
	m.FSType = cmp.Or(over.FSType, m.FSType)
	if len(over.MountFlags) > 0 {
		m.MountFlags = over.MountFlags
	}
	return &m
}

// The states of a volume. creating and deleting are recorded before the first call of the plugin and end with
// its recorded outcome, so the call survives a crash and a new leader.
const (
	VolumeCreating = "creating" // CreateVolume is wanted, its outcome not yet known
	VolumeReady    = "ready"
	// the plugin rejected the creation with a final error, which LastError holds; create again or delete
	VolumeFailed   = "failed"
	VolumeDeleting = "deleting"
)

// CSICodeExhausted is the OperationError.Code of a volume for which its plugin has no space.
const CSICodeExhausted = "ResourceExhausted"

// CSICodeAborted is the Error.Code of a plugin's answer that another operation for the volume is pending.
const CSICodeAborted = "Aborted"

// CSICodeEndsPlugin is the Error.Code of a call that a node does not make, because it ended its plugin twice:
// see CSIEndingCall. It is no gRPC code.
const CSICodeEndsPlugin = "EndsPlugin"

// OperationError is the last failure of an operation that is being tried.
type OperationError struct {
	Message  string
	Kind     Kind
	Code     string // the name of the plugin's gRPC code, if it has more information than Kind
	Attempts int    // failures in a row
	Time     int64  // UnixNano of the last
	// RetryTime is the time of the next attempt (UnixNano), 0 if that does not depend on time. NeverTry marks
	// a call that would fail again: it is not repeated before something changes or an operator requests it.
	RetryTime int64 `json:",omitempty"`
	// Op is "modify" if the operation was a change of mutable parameters.
	Op string `json:",omitempty" codec:",omitempty"`
}

// NeverTry is the RetryTime of a call that is not repeated by itself.
const NeverTry = -1

// CallSettles is how long a controller call without a final answer may still take effect after it was sent.
const CallSettles = 5 * time.Minute

// CSICall is a controller call of unknown outcome: it was, or may have been, delivered to the plugin on a
// node, and there is no answer that is final. The leader settles it at the same node or waits until it
// must have ended.
type CSICall struct {
	NodeID string
	Op     string // attach, detach, create, delete, expand, modify or learn
	Time   int64  // UnixNano when it was sent
}

// CSIForced records a decision of an operator about a volume without a proof.
type CSIForced struct {
	NodeID string
	What   string // the decision
	By     string // the name of the operator, unverified
	Reason string
	Time   int64 // UnixNano
}

// CSITurnedReadOnly records where a volume's file system turned read-only although an allocation had mounted
// it for writing. A file system does so when its disk fails or is full.
type CSITurnedReadOnly struct {
	NodeID  string
	AllocID string
	Time    int64 // UnixNano of the node's report: it had unmounted the volume
}

// VolumePlace is the place of all secrets of a volume in the keyring.
func VolumePlace(namespace, id string) string { return "volume " + namespace + "/" + id }

// CSIDeletion keeps the secrets that a volume had before the request to delete it replaced them.
type CSIDeletion struct {
	Secrets       Secrets `codec:"Secrets"`
	SealedSecrets *Sealed `json:"-" codec:"SealedSecrets,omitempty"` // see CSIVolume.SealedSecrets
}

// CSIGrow is when a volume grows by itself: at At percent of its bytes used, by By percent of its size, up to
// Max bytes. See package storage.
type CSIGrow struct {
	At  int
	By  int
	Max int64
}

// CSIGrowth is the last growth of a volume by itself, at Time (UnixNano) between sizes in bytes, and the
// reason why it does not grow although it should, "" for none.
type CSIGrowth struct {
	Time int64
	From int64
	To   int64
	// Reached is the size that a growth before it has reached, 0 for none.
	Reached int64  `json:"-" codec:"Reached,omitempty"`
	Fault   string `json:",omitempty"`
}

// The rules for a volume whose node is lost: who releases it. The proof of a fence device and the word of an
// operator release the volumes that they cover under each rule.
const (
	// LossHold: nobody else. The servers run no fence device for it. It is the default.
	LossHold = "hold"
	// LossFence: the servers run the fence devices of the node once somebody waits for the volume.
	LossFence = "fence"
	// LossLease: also the end of the node's lease, if the node stops the tasks of the claim by itself then:
	// see CSIClaim.Guarded.
	LossLease = "lease"
)

// CSIHost makes a volume a dynamic host volume: see package storage.
type CSIHost struct {
	Name        string // by which jobs name it
	NodePool    string
	NodeID      string
	Constraints []*Constraint // that the node has met
}

// CSICloneSource names the row of a volume that is copied. Another one with the same ID has another index.
type CSICloneSource struct {
	Namespace   string
	ID          string
	CreateIndex uint64
	ExternalID  string
}

// CSIVolume is the row of one volume. Key: (Namespace, ID). Its claims and attachments have their own rows.
type CSIVolume struct {
	ID        string
	Namespace string
	CSIVolumeSpec
	CSIVolumeOrigin
	CSIVolumeStatus
	ModifyTime int64 // UnixNano of the last change
	Indexes
}

// CSIVolumeSpec is the part of a volume that a file describes. A change that leaves a field out keeps it.
type CSIVolumeSpec struct {
	// Name is a label. Without one it is the name at the plugin.
	Name string
	// ExternalName is the name in CreateVolume: see NameAtPlugin.
	ExternalName string `json:",omitempty" codec:",omitempty"`

	ExternalID string // the plugin's volume_id, "" until created
	PluginID   string
	// Class is the volume class of which it has its values, "" for none: see structs/storage.
	Class string `json:",omitempty" codec:",omitempty"`
	// Labels are for people and filters: see CheckLabels. Neither plugins nor the scheduler read them.
	Labels              map[string]string `json:",omitempty" codec:",omitempty"`
	RequestedTopologies *CSITopologyRequest
	MountOptions        *CSIMountOptions
	Secrets             Secrets `codec:"Secrets"`
	// SealedSecrets are the secrets in the rows and in the log of a cluster with a root key. Secrets is then
	// empty there. Package keyring opens them.
	SealedSecrets *Sealed `json:"-" codec:"SealedSecrets,omitempty"`
	// SecretsFrom is the path of the variable with the secrets, in the namespace of the volume, "" for none.
	// It excludes Secrets: see package volumesecrets.
	SecretsFrom string            `json:",omitempty" codec:",omitempty"`
	Parameters  map[string]string // opaque, for CreateVolume
	// MutableParameters are the wanted ones, and AppliedParameters the plugin's: see package storage.
	MutableParameters     map[string]string `json:",omitempty" codec:",omitempty"`
	Context               map[string]string // opaque volume_context: passed back byte for byte
	RequestedCapacityMin  int64
	RequestedCapacityMax  int64
	RequestedCapabilities []*CSIVolumeCapability
	CloneID               string
	SnapshotID            string
	Snapshot              string `json:",omitempty" codec:",omitempty"` // the name of that one
	// OnNodeLoss is LossHold, LossFence or LossLease, "" for LossHold: see LossPolicy.
	OnNodeLoss string `json:",omitempty" codec:",omitempty"`
	// Reclaim is storage.ReclaimRetain or ReclaimDelete, "" for retain. DeleteAfter is of delete.
	Reclaim     string         `json:",omitempty" codec:",omitempty"`
	DeleteAfter *time.Duration `json:",omitempty" codec:",omitempty"`
	// Grow is when the volume grows by itself, nil for never, and Grown the record of that.
	Grow *CSIGrow `json:",omitempty" codec:",omitempty"`
	// Trim is the time between two trims of its file system; nil and 0 for none.
	Trim *time.Duration `json:",omitempty" codec:",omitempty"`
}

// CSIVolumeOrigin is the part of a volume that its creation or registration sets. A change keeps it. Only
// outcomes of calls and the growth of a volume change State, Topologies and Capacity later.
type CSIVolumeOrigin struct {
	QuotaWeight int    `json:",omitempty" codec:",omitempty"` // of its class, 0 for 1
	JobID       string `json:",omitempty" codec:",omitempty"` // of the job that asked for it, or ""
	AllocID     string `json:",omitempty" codec:",omitempty"` // with which it ends, "" for none
	// Host is set for a dynamic host volume, whose ID is HostVolumeID.
	Host       *CSIHost `json:",omitempty" codec:",omitempty"`
	State      string
	Topologies []*CSITopology // where it is reachable from; none: from everywhere
	Capacity   int64          // bytes; 0: the plugin reported none
	// CloneSource is the volume that CloneID named when the creation was recorded, which the plugin copies.
	CloneSource *CSICloneSource `json:"-" codec:"CloneSource,omitempty"`
	CreateTime  int64
}

// CSIVolumeStatus is the part of a volume that operations and their outcomes set. A new volume has none, and
// a change keeps it.
type CSIVolumeStatus struct {
	LastError *OperationError `json:",omitempty"`
	// the requested capacity is above Capacity and still to be requested from the plugin
	ExpandPending bool `json:",omitempty"`
	// NodeExpandBytes is the size to which nodes still have to expand the volume, 0 for none: the next node
	// that stages or publishes it, and each node that has it now (CSI spec, NodeExpandVolume).
	NodeExpandBytes int64 `json:",omitempty"`
	// FormerCapacityMin is the RequestedCapacityMin that was met last, to which a rejection of the pending
	// expansion restores it.
	FormerCapacityMin int64             `json:"-" codec:"FormerCapacityMin,omitempty"`
	AppliedParameters map[string]string `json:",omitempty" codec:",omitempty"` // see MutableParameters
	// DeleteAt is the time (UnixNano) from which the servers delete a ready volume that has no users, 0 for
	// never. DeleteCause is the event that has set it: see package storage.
	DeleteAt    int64      `json:",omitempty" codec:",omitempty"`
	DeleteCause string     `json:",omitempty" codec:",omitempty"`
	Grown       *CSIGrowth `json:",omitempty" codec:",omitempty"`
	// a call for the volume itself of unknown outcome
	Call *CSICall `json:",omitempty"`
	// Unanswered reports that a creation was called again without a final answer to the call before.
	Unanswered bool `json:"-" codec:"Unanswered,omitempty"`
	// DeleteCalled reports that the plugin was called, or was about to be, since the deletion was requested.
	DeleteCalled   bool               `json:"-" codec:"DeleteCalled,omitempty"`
	Forced         *CSIForced         `json:",omitempty"` // the last thing that an operator forced
	TurnedReadOnly *CSITurnedReadOnly `json:",omitempty"` // the last time that its file system turned read-only
	// Deletion has the values to restore when the deletion is cancelled; nil for none.
	Deletion *CSIDeletion `json:"-" codec:"Deletion,omitempty"`
}

// Copy returns a copy with its own secrets and its own list of capabilities. All else to which v refers is
// shared, and must not change: rows share it, too.
func (v *CSIVolume) Copy() *CSIVolume {
	c := *v
	c.Secrets = v.Secrets.Copy()
	c.RequestedCapabilities = append([]*CSIVolumeCapability{}, v.RequestedCapabilities...) // never nil
	return &c
}

// NameAtPlugin returns the name that CreateVolume gets at each call (CSI spec, CreateVolumeRequest.name). It
// is made for the volume, because a plugin has one volume for each name, whoever asks: the volume of another
// namespace, or of another cluster with the same file. The rows of servers before level 2 have only a Name.
func (v *CSIVolume) NameAtPlugin() string { return cmp.Or(v.ExternalName, v.Name) }

// NamesOfCalls returns the names of the volume in CSIEndingCall.
func (v *CSIVolume) NamesOfCalls() []string {
	names := []string{"name:" + v.NameAtPlugin()}
	if v.ExternalID != "" {
		names = append(names, v.ExternalID)
	}
	return names
}

// Unsettled reports whether the leader still has a call to make for the volume itself.
func (v *CSIVolume) Unsettled() bool {
	return v.State == VolumeCreating || v.State == VolumeDeleting || v.ExpandPending || v.Expands() ||
		v.Marked() || v.Modifies()
}

// Asked returns the sizes with which a plugin is called to create or expand the volume.
func (v *CSIVolume) Asked() CSIAsked {
	return CSIAsked{Min: v.RequestedCapacityMin, Max: v.RequestedCapacityMax}
}

// Expands reports whether the plugin of a ready volume has still to expand it. A row without ExpandPending
// that is smaller than its request is one that an older version has settled with the outcome of another call.
func (v *CSIVolume) Expands() bool {
	return v.State == VolumeReady && (v.ExpandPending || v.TooSmall())
}

// TooSmall reports whether a volume is smaller than requested, and no node is about to change that. It is
// false if the plugin has told no size.
func (v *CSIVolume) TooSmall() bool {
	asked := v.RequestedCapacityMin
	return v.Capacity != 0 && asked > v.Capacity && v.NodeExpandBytes < asked
}

// NeedsSource reports whether the plugin may still be called to create the volume, which then needs the
// volume or snapshot that it is made of.
func (v *CSIVolume) NeedsSource() bool {
	return v.ExternalID == "" && (v.State != VolumeFailed || v.Unanswered)
}

// Modifies reports whether the plugin of a ready volume has still to apply a mutable parameter.
func (v *CSIVolume) Modifies() bool {
	return v.State == VolumeReady && !maps.Equal(v.MutableParameters, v.AppliedParameters)
}

// Marked reports whether the volume is to be deleted later, and can still be kept.
func (v *CSIVolume) Marked() bool { return v.State == VolumeReady && v.DeleteAt != 0 }

// clonePtr returns a pointer to a copy; nil stays nil.
func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// ReachableFrom reports whether a node with the topology can use the volume (CSI spec, E3 of the
// accessibility rules): a volume without topologies is reachable from everywhere.
func (v *CSIVolume) ReachableFrom(node *CSITopology) bool {
	matches := func(t *CSITopology) bool { return t.Matches(node) }
	return len(v.Topologies) == 0 ||
		slices.ContainsFunc(v.Topologies, matches)
}

// CSIVolumeDetail is the answer of CSIVolume.Get: the volume with its plugin's health, its claims, its
// attachments and its allocations at the time of the read.
type CSIVolumeDetail struct {
	CSIVolume
	AccessMode     CSIAccessMode     // of the claims granted now, "" if none
	AttachmentMode CSIAttachmentMode // likewise
	ReadAllocs     map[string]*AllocListStub
	WriteAllocs    map[string]*AllocListStub
	Allocations    []*AllocListStub
	Claims         []*CSIClaim
	Attachments    []*CSIAttachment
	Schedulable    bool
	Blocked        string   `json:",omitempty"` // the reason if it is not schedulable, or the current blocker
	Warnings       []string `json:",omitempty"` // findings for an operator
	// jobs that wait for the volume without an allocation, at most MaxWaitingJobs
	WaitingJobs []string `json:",omitempty"`
	// the users that have to release the volume before the plugin may expand it
	ExpandBlocked string `json:",omitempty"`
	// LossPolicy is OnNodeLoss, or else the rule of the volume's plugin, or else LossHold.
	LossPolicy string
	// SecretsVariable is SecretsFrom, or else the path that the settings of the plugin name for the volume.
	SecretsVariable     string `json:",omitempty"`
	Provider            string
	ProviderVersion     string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
}

// CSIVolumeListStub is one volume in a list.
type CSIVolumeListStub struct {
	ID                  string
	Namespace           string
	Name                string
	ExternalID          string
	State               string
	Topologies          []*CSITopology
	AccessMode          CSIAccessMode
	AttachmentMode      CSIAttachmentMode
	CurrentReaders      int
	CurrentWriters      int
	Waiting             int // claims in the queue
	Schedulable         bool
	PluginID            string
	Class               string            `json:",omitempty" codec:",omitempty"`
	Labels              map[string]string `json:",omitempty" codec:",omitempty"`
	DeleteAt            int64             `json:",omitempty" codec:",omitempty"` // as in CSIVolume
	Drift               string            `json:",omitempty" codec:",omitempty"` // the kinds of its differences
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	CreateTime          int64
	ModifyTime          int64
	Indexes
}

// CSIVolumeGet reads one volume with its claims and attachments.
var CSIVolumeGet = Read[CSIVolumeGetRequest, CSIVolumeGetResponse]("CSIVolume.Get")

// CSIVolumeGetRequest is the request for one volume.
type CSIVolumeGetRequest struct {
	ID string
	QueryOptions
}

// CSIVolumeGetResponse has the volume.
type CSIVolumeGetResponse struct {
	Volume *CSIVolumeDetail
	QueryMeta
}

// CSIVolumeList lists volumes.
var CSIVolumeList = Read[CSIVolumeListRequest, CSIVolumeListResponse]("CSIVolume.List")

// CSIVolumeListRequest is the request for the volumes of a namespace, of one plugin or class, or in use on
// one node.
type CSIVolumeListRequest struct {
	PluginID string
	NodeID   string
	Class    string
	QueryOptions
}

// CSIVolumeListResponse has the volumes that match.
type CSIVolumeListResponse struct {
	Volumes []*CSIVolumeListStub
	QueryMeta
}

// The methods that write volumes.
var (
	CSIVolumeRegister = Write[CSIVolumeRegisterRequest, CSIVolumeRegisterResponse]("CSIVolume.Register")
	CSIVolumeCreate   = Write[CSIVolumeRegisterRequest, CSIVolumeRegisterResponse]("CSIVolume.Create")
)

// CSIVolumeRegisterRequest has volumes to register (they exist at the plugin) or to create. As a log entry it
// replaces each volume completely. A volume whose ModifyIndex is not the stored row's is a conflict, so that
// no update is lost.
type CSIVolumeRegisterRequest struct {
	Volumes []*CSIVolume
	WriteOptions
}

// CSIVolumeRegisterResponse has the volumes as they are now.
type CSIVolumeRegisterResponse struct {
	Volumes  []*CSIVolume
	Warnings string `json:",omitempty"` // findings for an operator
	WriteMeta
}

// CSIVolumeDeregister deletes the row of a volume without changing the volume at the plugin. For a volume
// with claims or attachments, or with a controller call that may still take effect, the error is a
// precondition.
var CSIVolumeDeregister = Write[CSIVolumeDeregisterRequest, Empty]("CSIVolume.Deregister")

// CSIVolumeDeregisterRequest names the volume. Force also deletes waiting claims and claims of allocations
// that are client-terminal or deleted, but never a claim that may still write. It does not wait for a
// controller call that may still take effect.
type CSIVolumeDeregisterRequest struct {
	ID    string
	Force bool
	// Settle is how long a controller call for the volume may still take effect after it was sent. The
	// server sets it. 0 waits for no call.
	Settle time.Duration
	WriteOptions
}

// CSIVolumeDelete deletes a volume at its plugin and then its row, now or later.
var CSIVolumeDelete = Write[CSIVolumeDeleteRequest, Empty]("CSIVolume.Delete")

// CSIVolumeDeleteRequest names the volume. As a log entry it records the intent: State deleting, or DeleteAt
// for a volume that is deleted later. With AtOnce no volume is.
type CSIVolumeDeleteRequest struct {
	ID            string
	AtOnce        bool    `json:",omitempty" codec:",omitempty"`
	Secrets       Secrets `codec:"Secrets"`
	SealedSecrets *Sealed `json:"-" codec:"SealedSecrets,omitempty"` // see CSIVolume.SealedSecrets
	WriteOptions
}

// CSIAsked has the least and the largest size in bytes of a call that creates or expands a volume. A Max of 0
// is no bound.
type CSIAsked struct {
	Min int64
	Max int64
}

// CSIVolumeOutcome records the outcome of a plugin call that a volume's state demanded. Op is "create",
// "delete", "expand" or "modify". With Err nil the call succeeded. With Final, Err ends the attempt.
type CSIVolumeOutcome struct {
	ID string
	Op string
	// Asked has the sizes of the call, of a creation or an expansion. The row may have others by now, which
	// the outcome does not settle. It is nil for another call.
	Asked      *CSIAsked `json:",omitempty" codec:",omitempty"`
	RowIndex   uint64    // CreateIndex of the row for which the call was made, as in CSIAttachmentOutcome
	ExternalID string
	Capacity   int64
	Context    map[string]string
	Topologies []*CSITopology
	Err        *OperationError
	Final      bool
	// NodeExpandBytes is the size to which nodes have to expand the volume; 0 if they have nothing to do.
	NodeExpandBytes int64 `json:",omitempty"`
	KeepCall        bool  // the outcome of the call that the row names is still not known
	// Parameters are the parameters of the call, of a modification.
	Parameters map[string]string `json:",omitempty" codec:",omitempty"`
	WriteOptions
}

// CSIVolumeRetry repeats failed operations on a volume at once: create, delete, expand, attach, detach, and
// the nodes' expansion and mounts.
var CSIVolumeRetry = Write[CSIVolumeRetryRequest, CSIVolumeRetryResponse]("CSIVolume.Retry")

// CSIVolumeRetryRequest names the volume.
type CSIVolumeRetryRequest struct {
	ID string
	WriteOptions
}

// CSIVolumeRetryResponse names the claims for whose allocations a node makes a failed mount again at once.
type CSIVolumeRetryResponse struct {
	Mounts []*CSIRetriedMount `json:",omitempty"`
	WriteMeta
}

// CSIRetriedMount names an allocation that waits for its mount, and its node.
type CSIRetriedMount struct {
	NodeID  string
	AllocID string
}

// Canonicalize fills in the defaults. It is idempotent.
func (v *CSIVolume) Canonicalize() {
	v.Namespace = NamespaceOr(v.Namespace)
}

// DropServerFields empties the fields that the servers alone fill in.
func (v *CSIVolume) DropServerFields() {
	v.CSIVolumeOrigin = CSIVolumeOrigin{Topologies: v.Topologies, Capacity: v.Capacity}
	v.CSIVolumeStatus = CSIVolumeStatus{}
	v.SealedSecrets = nil
	v.ModifyTime = 0
	v.CreateIndex = 0
}
