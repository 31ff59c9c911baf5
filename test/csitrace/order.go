package csitrace

import (
	"fmt"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// stagedUnattached: NodeStageVolume MUST come after ControllerPublishVolume for the node has succeeded.
func stagedUnattached(l *ledger, c *Call) string {
	if c.RPC != "NodeStageVolume" {
		return ""
	}
	return l.notAttached(c)
}

// publishedUnattached: NodePublishVolume MUST come after ControllerPublishVolume has succeeded.
func publishedUnattached(l *ledger, c *Call) string {
	if c.RPC != "NodePublishVolume" {
		return ""
	}
	return l.notAttached(c)
}

// notAttached returns why the volume of a call is not certainly attached to its node. A plugin without such
// a step attaches none.
func (l *ledger) notAttached(c *Call) string {
	if !l.any["controller PUBLISH_UNPUBLISH_VOLUME"] {
		return ""
	}
	e := l.attached[place{volume: volumeOf(c), node: c.Node}]
	return notMade(e, "ControllerPublishVolume", volumeOf(c), c.Node)
}

// notMade returns why an effect is not certain, "" if it is.
func notMade(e *effect, rpc, volume, node string) string {
	switch {
	case e == nil:
		return fmt.Sprintf("no %s was made for volume %s on node %s", rpc, volume, node)
	case e.undo != nil:
		return fmt.Sprintf("volume %s on node %s is being released: %s", volume, node, e.undo)
	case e.made == nil:
		return fmt.Sprintf("%s of volume %s for node %s has not succeeded: %s", rpc, volume, node, e.last)
	}
	return ""
}

// publishedUnstaged: NodeStageVolume MUST have succeeded before NodePublishVolume, for the staging path.
func publishedUnstaged(l *ledger, c *Call) string {
	if c.RPC != "NodePublishVolume" || !l.offers[c.Instance]["node STAGE_UNSTAGE_VOLUME"] {
		return ""
	}
	e := l.staged[place{volumeOf(c), c.Node, stagingOf(c)}]
	return notMade(e, "NodeStageVolume", volumeOf(c), c.Node)
}

// unstagedInUse: NodeUnstageVolume MUST come after all NodeUnpublishVolume have succeeded.
func unstagedInUse(l *ledger, c *Call) string {
	if c.RPC != "NodeUnstageVolume" {
		return ""
	}
	return inUse(l.published, volumeOf(c), c.Node, "published")
}

// detachedInUse: ControllerUnpublishVolume MUST come after all NodeUnstageVolume and NodeUnpublishVolume on
// the node have succeeded.
func detachedInUse(l *ledger, c *Call) string {
	if c.RPC != "ControllerUnpublishVolume" {
		return ""
	}
	if text := inUse(l.published, volumeOf(c), nodeOf(c), "published"); text != "" {
		return text
	}
	return inUse(l.staged, volumeOf(c), nodeOf(c), "staged")
}

// deletedInUse: no node has, or may have, the volume that is deleted.
func deletedInUse(l *ledger, c *Call) string {
	if c.RPC != "DeleteVolume" {
		return ""
	}
	for how, effects := range map[string]map[place]*effect{
		"attached": l.attached, "staged": l.staged, "published": l.published,
	} {
		if text := inUse(effects, volumeOf(c), "", how); text != "" {
			return text
		}
	}
	return ""
}

// inUse describes an effect for a volume on a node, of any node for "".
func inUse(effects map[place]*effect, volume, node, how string) string {
	for at, e := range effects {
		if at.volume == volume && (node == "" || at.node == node) {
			return fmt.Sprintf("volume %s may still be %s on node %s: %s", volume, how, at.node, e.last)
		}
	}
	return ""
}

// deletionFailed are the codes after which the specification does not count a deletion as begun: the volume
// is in use, or the request was wrong.
var deletionFailed = map[string]bool{
	"FailedPrecondition": true, "InvalidArgument": true, "PermissionDenied": true,
	"Unauthenticated": true, "Unimplemented": true,
}

// usedAfterDeletion: after a deletion that succeeded, or whose outcome is not known, only its repetition
// makes sense.
func usedAfterDeletion(l *ledger, c *Call) string {
	v := l.volumes[volumeOf(c)]
	if v == nil || v.deleted == nil || unlocked[c.RPC] || deletionFailed[v.deleted.Code] {
		return ""
	}
	switch c.RPC {
	case "DeleteVolume", "ControllerUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume":
		return ""
	case "CreateSnapshot":
		// A repetition learns the ID of a snapshot that may exist, to delete it. A plugin finds it by its name,
		// or answers NOT_FOUND (CSI spec, CreateSnapshot errors).
		if l.lastLike(c) != nil {
			return ""
		}
	}
	return fmt.Sprintf("volume %s was or may be deleted: %s", volumeOf(c), v.deleted)
}

// grownAbsent: NodeExpandVolume is called only on a node where the volume is staged or published.
func grownAbsent(l *ledger, c *Call) string {
	if c.RPC != "NodeExpandVolume" ||
		isMade(l.staged, volumeOf(c), c.Node) || isMade(l.published, volumeOf(c), c.Node) {
		return ""
	}
	return fmt.Sprintf("volume %s is neither staged nor published on node %s", volumeOf(c), c.Node)
}

func isMade(effects map[place]*effect, volume, node string) bool {
	for at, e := range effects {
		if at.volume == volume && at.node == node && e.made != nil {
			return true
		}
	}
	return false
}

// grownOnline: a plugin that expands only offline is called for a volume that no node has.
func grownOnline(l *ledger, c *Call) string {
	if c.RPC != "ControllerExpandVolume" || l.any["plugin ONLINE"] || !l.any["plugin OFFLINE"] {
		return ""
	}
	for _, effects := range []map[place]*effect{l.attached, l.staged, l.published} {
		if text := inUse(effects, volumeOf(c), "", "in use"); text != "" {
			return text
		}
	}
	return ""
}

// restoredUnready: a volume is made from a snapshot that a call has found ready and no call has deleted.
func restoredUnready(l *ledger, c *Call) string {
	id := restoredFrom(c)
	s := l.snapshots[id]
	switch {
	case id == "":
		return ""
	case s == nil:
		return fmt.Sprintf("no call has created snapshot %s", id)
	case !s.ready:
		return fmt.Sprintf("snapshot %s is not ready to use", id)
	case s.deleted != nil:
		return fmt.Sprintf("snapshot %s was or may be deleted: %s", id, s.deleted)
	}
	return ""
}

// restoredFrom returns the snapshot from which a call creates a volume, "" for none.
func restoredFrom(c *Call) string {
	r, ok := c.Request.(*spec.CreateVolumeRequest)
	if !ok {
		return ""
	}
	return r.GetVolumeContentSource().GetSnapshot().GetSnapshotId()
}

// deletedDuringRestore: no creation from the snapshot is in flight, or has an outcome that is not known.
func deletedDuringRestore(l *ledger, c *Call) string {
	if c.RPC != "DeleteSnapshot" {
		return ""
	}
	for name, made := range l.creations {
		if restoredFrom(made.last) == snapshotOf(c) && isUnknown(made.last) {
			return fmt.Sprintf("volume %s is being created from snapshot %s: %s",
				name, snapshotOf(c), made.last)
		}
	}
	return ""
}

// isUnknown reports whether a call is in flight, or has ended with a code after which it may have had, or
// may still have, an effect (CSI spec, "Timeouts").
func isUnknown(c *Call) bool {
	switch c.Code {
	case "", "Canceled", "DeadlineExceeded", "Unknown", "Unavailable", "Aborted":
		return true
	}
	return false
}
