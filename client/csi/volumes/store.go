package volumes

import (
	"cmp"
	"slices"
	"time"

	"berth/client/csi/mounts"
	"berth/client/store"
	"berth/internal/boottime"
	"berth/internal/codec"
	"berth/structs"
)

// The states of a staging record. A state that ends in -ing was written before the plugin was called, so
// the call may or may not have been made and taken effect.
const (
	staging   = "staging"
	staged    = "staged"
	unstaging = "unstaging"
)

// The states of a publish record.
const (
	claimed      = "claimed" // the claim was requested; the plugin was not called
	publishing   = "publishing"
	published    = "published"
	unpublishing = "unpublishing"
	released     = "released" // nothing of it is left on the node; the servers do not know yet
)

// stageRecord exists while the volume is, or may be, staged on this node.
type stageRecord struct {
	Namespace  string
	VolumeID   string
	PluginID   string
	ExternalID string
	Dir        string // the volume's directory, relative to the root
	State      string
	Provider   string        // the driver that was called
	Use        string        // digest of the capability it was staged with
	BootID     string        // of the kernel that it was staged under
	Mounted    bool          // a mount was seen at the staging path when it had been staged
	Writable   bool          // its file system could be written then
	Timeout    time.Duration // of the calls of the plugin: see Use
}

// publishRecord exists while an allocation uses, or may use, a volume on this node.
type publishRecord struct {
	Namespace      string
	VolumeID       string
	AllocID        string
	PluginID       string
	ExternalID     string
	Provider       string // the driver that was called
	Dir            string // the volume's directory, relative to the root
	AttachmentMode structs.CSIAttachmentMode
	AccessMode     structs.CSIAccessMode
	ReadOnly       bool
	State          string
	Grant          uint64 // index of the grant under which it was brought here, 0 if that is not known
	BootID         string // of the kernel that it was published under
	Mounted        bool   // a mount was seen at the target path when it had been published
	ExternalNodeID string // the plugin's ID of the node it was attached to; "": not attached, or not known
	Writable       bool   // its file system could be written then
	// TurnedReadOnly: it could not be written when it was unpublished, or under another user when it was to
	// be published.
	TurnedReadOnly bool
	Timeout        time.Duration // of the calls of the plugin: see Use
	Trim           time.Duration // between two trims: see Use
	Inline         bool          // see Use
}

func (s *stageRecord) key() VolumeKey   { return VolumeKey{s.Namespace, s.VolumeID} }
func (p *publishRecord) key() VolumeKey { return VolumeKey{p.Namespace, p.VolumeID} }

// path returns the staging path, relative to the root.
func (s *stageRecord) path() string { return mounts.StagePath(s.Dir) }

// target returns the target path, relative to the root.
func (p *publishRecord) target() string {
	return mounts.TargetPath(p.Dir, p.AllocID)
}

var (
	stageTable   = store.NewTable[stageRecord]("csi_staged")
	publishTable = store.NewTable[publishRecord]("csi_published")
)

// holds reports whether its allocation still has to release the volume.
func (p *publishRecord) holds() bool { return p.State != released }

// mayBePublished reports whether the volume may be published for its allocation: then it has to stay staged.
// An allocation that waits for its claim, or whose volume is unpublished already, does not block other users.
func (p *publishRecord) mayBePublished() bool { return p.State != claimed && p.State != released }

// volumeStore holds the node's durable records of volumes.
type volumeStore struct{ db *store.DB }

func (vs volumeStore) getStage(v VolumeKey) (*stageRecord, error) {
	return stageTable.Get(vs.db, store.Key(v.Namespace, v.ID))
}

func (vs volumeStore) putStage(s *stageRecord) error {
	return vs.db.Commit(stageChange(s))
}

func stageChange(s *stageRecord) store.Change {
	return stageTable.Change(store.Key(s.Namespace, s.VolumeID), s)
}

func (vs volumeStore) deleteStage(v VolumeKey) error {
	return stageTable.Delete(vs.db, store.Key(v.Namespace, v.ID))
}

func (vs volumeStore) getPublish(v VolumeKey, allocID string) (*publishRecord, error) {
	return publishTable.Get(vs.db, store.Key(v.Namespace, v.ID, allocID))
}

func (vs volumeStore) putPublish(p *publishRecord) error {
	return vs.db.Commit(publishChange(p))
}

func publishChange(p *publishRecord) store.Change {
	return publishTable.Change(store.Key(p.Namespace, p.VolumeID, p.AllocID), p)
}

func (vs volumeStore) deletePublish(v VolumeKey, allocID string) error {
	return publishTable.Delete(vs.db, store.Key(v.Namespace, v.ID, allocID))
}

// usersOf returns the publish records for which a volume has to stay staged, except one allocation's.
func (vs volumeStore) usersOf(v VolumeKey, without string) ([]*publishRecord, error) {
	users, err := vs.publishesOf(v)
	return slices.DeleteFunc(users, func(p *publishRecord) bool {
		return p.AllocID == without || !p.mayBePublished()
	}), err
}

// publishesOf returns the publish records of a volume. With an error they are incomplete: no decision may use
// them.
func (vs volumeStore) publishesOf(v VolumeKey) ([]*publishRecord, error) {
	return vs.publishes(store.Key(v.Namespace, v.ID, ""))
}

// publishes returns the publish records whose keys begin with prefix.
func (vs volumeStore) publishes(prefix string) ([]*publishRecord, error) {
	records, err := publishTable.All(vs.db, prefix)
	out := make([]*publishRecord, len(records))
	for i, r := range records {
		out[i] = r.Value
	}
	return out, err
}

// useDigest identifies a capability without keeping mount flags, which may contain secrets.
func useDigest(u *Use) string {
	options := structs.CSIMountOptions{}
	if u.MountOptions != nil {
		options = *u.MountOptions
	}

	// No flags and an empty list have one encoding.
	flags := append([]string{}, options.MountFlags...)
	b, err := codec.Encode(struct {
		AccessMode     structs.CSIAccessMode
		AttachmentMode structs.CSIAttachmentMode
		FSType         string
		MountFlags     []string
	}{u.AccessMode, u.AttachmentMode, options.FSType, flags})
	if err != nil {
		panic("strings do not encode: " + err.Error())
	}
	return mounts.ShortName(string(b))
}

// bootID identifies the boot of the kernel: mounts and device attachments end with it.
func bootID() string {
	return cmp.Or(boottime.ID(), "unknown")
}
