package events

import (
	"cmp"
	"fmt"

	"berth/fsm"
	"berth/structs"
	"berth/structs/event"
	"berth/structs/storage"
)

// The first filter key of an event about a volume is the ID of the volume: rights name it.

// volume has the events of a volume and of its operation in flight.
func volume(c change[structs.CSIVolume]) []Made {
	v := c.row()
	e := event.Event{
		Topic:      event.CSIVolume,
		Type:       c.typeOf("CSIVolumeDeregistered", volumeTypes, "CSIVolumeUpdated"),
		Key:        v.ID,
		Namespace:  v.Namespace,
		FilterKeys: []string{v.ID, v.PluginID, v.Name},
		Reason:     failure(v.LastError),
	}
	if c.isNew() {
		e.Type = "CSIVolumeRegistered"
	}
	if c.before != nil && c.now != nil && c.before.Capacity != 0 && c.now.Capacity > c.before.Capacity {
		e.Type = "CSIVolumeGrown"
		e.Reason = fmt.Sprintf("from %d to %d bytes", c.before.Capacity, c.now.Capacity)
	}
	form := func(v *structs.CSIVolume) any { return v.Redacted() }
	if v.Host != nil {
		e.Topic = event.HostVolume
		e.Type = c.typeOf("HostVolumeDeleted", nil, "HostVolumeRegistered")
		e.FilterKeys = []string{v.ID, v.Host.NodeID, v.Name, v.PluginID}
		form = func(v *structs.CSIVolume) any { return storage.HostVolumeOf(v.Redacted(), "") }
	}

	made := shown(c, "Volume", e, form)
	before := pendingOf(c.before)
	now := pendingOf(c.now)
	return append(made, operations(before, now)...)
}

var volumeTypes = map[string]string{
	fsm.VolumePut.Name:   "CSIVolumeRegistered",
	fsm.VolumeClaim.Name: "CSIVolumeClaim",
}

func failure(err *structs.OperationError) string {
	if err == nil {
		return ""
	}
	return err.Message
}

// pending is a volume, or its attachment, with what decides about its operation.
type pending struct {
	Namespace string
	VolumeID  string
	NodeID    string // "" for an operation on the volume itself
	PluginID  string
	State     string                  // of the volume or of the attachment
	Call      *structs.CSICall        // sent, and of unknown outcome; nil: none
	LastError *structs.OperationError // nil: the last call has succeeded, or there was none
}

func pendingOf(v *structs.CSIVolume) *pending {
	if v == nil {
		return nil
	}
	return &pending{
		Namespace: v.Namespace,
		VolumeID:  v.ID,
		PluginID:  v.PluginID,
		State:     v.State,
		Call:      v.Call,
		LastError: v.LastError,
	}
}

func pendingOn(a *structs.CSIAttachment) *pending {
	if a == nil {
		return nil
	}
	return &pending{
		Namespace: a.Namespace,
		VolumeID:  a.VolumeID,
		NodeID:    a.NodeID,
		PluginID:  a.PluginID,
		State:     a.State,
		Call:      a.Call,
		LastError: a.LastError,
	}
}

// operations has the event of an operation that has begun, failed or ended. A row that is gone has none.
func operations(before, now *pending) []Made {
	if now == nil {
		return nil
	}
	kind := operationType(cmp.Or(before, &pending{}), now)
	if kind == "" {
		return nil
	}

	key := now.VolumeID
	if now.NodeID != "" {
		key += "/" + now.NodeID
	}
	return one(change[pending]{before: before, now: now}, "Operation", event.Event{
		Topic:      event.Operation,
		Type:       kind,
		Key:        key,
		Namespace:  now.Namespace,
		FilterKeys: []string{now.VolumeID, now.NodeID, now.PluginID},
		Reason:     operationReason(kind, cmp.Or(before, &pending{}), now),
	})
}

func operationType(before, now *pending) string {
	switch {
	case isNewFailure(before.LastError, now.LastError):
		return "OperationFailed"
	case now.Call != nil && before.Call == nil:
		return "OperationBegun"
	case now.Call == nil && before.Call != nil:
		return "OperationEnded"
	}
	return ""
}

// isNewFailure reports whether a call has failed since an error. A retry by an operator changes the time of
// the next attempt alone.
func isNewFailure(before, now *structs.OperationError) bool {
	if before == nil || now == nil {
		return now != nil
	}
	same := *now
	same.RetryTime = before.RetryTime
	return same != *before
}

// operationReason returns the failure, or the operation that has begun or ended.
func operationReason(kind string, before, now *pending) string {
	switch kind {
	case "OperationBegun":
		return now.Call.Op
	case "OperationEnded":
		return before.Call.Op
	}
	return failure(now.LastError)
}

func plugin(c change[structs.CSIPluginRow]) []Made {
	p := c.row()
	return one(c, "Plugin", event.Event{
		Topic:      event.CSIPlugin,
		Type:       c.typeOf("CSIPluginDeleted", nil, "CSIPluginUpserted"),
		Key:        p.ID,
		FilterKeys: []string{p.Provider},
	})
}

func instance(c change[structs.CSIPluginInstance]) []Made {
	i := c.row()
	kind := "InstanceUpdated"
	switch {
	case c.isGone():
		kind = "InstanceDeregistered"
	case c.isNew():
		kind = "InstanceRegistered"
	case !c.before.Healthy && c.now.Healthy:
		kind = "InstanceHealthy"
	case c.before.Healthy && !c.now.Healthy:
		kind = "InstanceUnhealthy"
	}

	return one(c, "Instance", event.Event{
		Topic:      event.Instance,
		Type:       kind,
		Key:        i.PluginID + "/" + string(i.Kind) + "/" + i.NodeID,
		FilterKeys: []string{i.PluginID, i.NodeID, i.AllocID},
		Reason:     instanceReason(c),
	})
}

func instanceReason(c change[structs.CSIPluginInstance]) string {
	i := c.row()
	switch {
	case c.isGone():
		return "" // it was healthy or not until then
	case i.DownWithNode:
		return "the node is down"
	case i.OtherDriver:
		return "the instance is of another driver than the plugin"
	}
	return i.HealthDescription
}

// releases has the reasons for which commands delete claims.
var releases = map[string]string{
	fsm.VolumeUnpublish.Name:  "the node has released the volume",
	fsm.NodeUpdateCSI.Name:    "the node has released the volume",
	fsm.FenceEnd.Name:         "a fence device has proved that the node can no longer write",
	fsm.ConfirmLost.Name:      "an operator has confirmed that the node is lost",
	fsm.LeaseProof.Name:       "the lease of the node has ended, and with it its access",
	fsm.VolumeForce.Name:      "an operator has forced the release",
	fsm.VolumeDeregister.Name: "the volume was deregistered",
	fsm.Reap.Name:             "the allocation has ended and was deleted",
}

func claim(c change[structs.CSIClaim]) []Made {
	k := c.row()
	e := event.Event{
		Topic:      event.Claim,
		Type:       "ClaimUpdated",
		Key:        k.VolumeID + "/" + k.AllocID,
		Namespace:  k.Namespace,
		FilterKeys: []string{k.VolumeID, k.AllocID, k.JobID, k.NodeID, k.PluginID},
		Reason:     cmp.Or(k.Reason, failure(k.ReleaseError), failure(k.ExpandError)),
	}
	granted := k.State == structs.ClaimGranted
	switch {
	case c.isGone():
		e.Type = "ClaimReleased"
		e.Reason = cmp.Or(releases[c.command], "the allocation no longer needs the volume")
	case granted && (c.isNew() || c.before.State != structs.ClaimGranted):
		e.Type = "ClaimGranted"
		e.Reason = "no claim excludes it any more"
		if c.isNew() {
			e.Reason = "no claim excludes it"
		}
	case c.isNew():
		e.Type = "ClaimRequested"
	}
	return one(c, "Claim", e)
}

func attachment(c change[structs.CSIAttachment]) []Made {
	a := c.row()
	kind := "AttachmentUpdated"
	reason := ""
	switch {
	case c.isGone():
		kind = "AttachmentDetached"
		reason = cmp.Or(releases[c.command], "the plugin has detached the volume")
	case c.isNew():
		kind = "AttachmentRequested"
		reason = "a claim of the node was granted"
	case c.before.State != c.now.State && c.now.State == structs.AttachmentAttached:
		kind = "AttachmentAttached"
		reason = "the plugin has attached the volume"
	case c.before.State != c.now.State && c.now.State == structs.AttachmentDetaching:
		kind = "AttachmentDetaching"
		reason = cmp.Or(releases[c.command], "no claim of the node needs the volume")
	}

	made := shown(c, "Attachment", event.Event{
		Topic:      event.Attachment,
		Type:       kind,
		Key:        a.VolumeID + "/" + a.NodeID,
		Namespace:  a.Namespace,
		FilterKeys: []string{a.VolumeID, a.NodeID, a.PluginID},
		Reason:     cmp.Or(failure(a.LastError), reason),
	}, func(a *structs.CSIAttachment) any { return a.Redacted() })
	return append(made, operations(pendingOn(c.before), pendingOn(c.now))...)
}

func volumeSnapshot(c change[storage.VolumeSnapshot]) []Made {
	s := c.row()
	kind := "SnapshotUpdated"
	reason := cmp.Or(s.Reason, failure(s.LastError))
	switch {
	case c.isGone():
		kind = "SnapshotDeleted"
		reason = ""
	case c.isNew():
		kind = "SnapshotRequested"
	case c.before.State != c.now.State && c.now.State == storage.SnapshotReady:
		kind = "SnapshotReady"
	case c.before.State != c.now.State && c.now.State == storage.SnapshotFailed:
		kind = "SnapshotFailed"
	}
	return one(c, "Snapshot", event.Event{
		Topic:      event.Snapshot,
		Type:       kind,
		Key:        s.Name,
		Namespace:  s.Namespace,
		FilterKeys: []string{s.VolumeID, s.ID, s.PluginID},
		Reason:     reason,
	})
}
