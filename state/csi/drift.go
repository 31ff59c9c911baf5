package csi

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// DriftsFrom yields all differences from a key on, by plugin, kind, volume and node.
func DriftsFrom(tx *mvcc.ReadTx, at mvcc.Page) iter.Seq[*storage.VolumeDrift] {
	return schema.Drifts.Range(tx, mvcc.KeyPrefix(""), at)
}

// DriftsOfPlugin yields the differences of a plugin, by kind, volume and node.
func DriftsOfPlugin(tx mvcc.Reader, pluginID string) iter.Seq[*storage.VolumeDrift] {
	return schema.Drifts.Scan(tx, pluginID)
}

// DriftsOfVolume yields the differences of a volume.
func DriftsOfVolume(tx mvcc.Reader, namespace, id string) iter.Seq[*storage.VolumeDrift] {
	return schema.DriftsByVolume.Scan(tx, namespace, id)
}

// DriftSummaries yields the summaries of all plugins that have one, by plugin.
func DriftSummaries(tx mvcc.Reader) iter.Seq[*storage.DriftSummary] {
	return schema.DriftSummaries.Scan(tx)
}

// DriftSummary returns the summary of a plugin, nil for none.
func DriftSummary(tx mvcc.Reader, pluginID string) *storage.DriftSummary {
	return schema.DriftSummaries.Get(tx, pluginID)
}

// Drift returns a difference, nil if there is none.
func Drift(tx mvcc.Reader, k storage.DriftKey) *storage.VolumeDrift {
	return schema.Drifts.Get(tx, k.PluginID, k.Kind, k.ExternalID, k.ExternalNodeID)
}

// DriftRecord changes the differences of a plugin. A difference that exists keeps its time and its repair.
// Beyond storage.MaxDrifts it stores no other one. A plugin that is gone has none.
func DriftRecord(tx *mvcc.WriteTx, p *storage.DriftRecordRequest) error {
	err := checkDriftRecord(p)
	if err != nil || Plugin(tx, p.PluginID) == nil {
		return err
	}

	for _, k := range p.Gone {
		if old := Drift(tx, k); old != nil {
			schema.Drifts.Delete(tx, old)
		}
	}
	count := countDrifts(tx, p.PluginID)
	for _, d := range p.Found {
		old := Drift(tx, d.Key())
		if d.Same(old) || old == nil && count >= storage.MaxDrifts {
			continue
		}
		if old == nil {
			count++
		}
		row := *d
		row.Since = p.Now
		row.Repair = ""
		row.RepairTime = 0
		schema.Drifts.Put(tx, &row)
	}

	putDriftSummary(tx, p)
	return nil
}

// checkDriftRecord checks the bounds of a request, and that it is about one plugin.
func checkDriftRecord(p *storage.DriftRecordRequest) error {
	if len(p.Found) > storage.MaxDriftChanges || len(p.Gone) > storage.MaxDriftChanges {
		return structs.Invalidf("%d and %d differences are more than %d",
			len(p.Found), len(p.Gone), storage.MaxDriftChanges)
	}
	other := func(k storage.DriftKey) bool { return k.PluginID != p.PluginID }
	for _, d := range p.Found {
		if d == nil || other(d.Key()) || d.ExternalID == "" || d.VolumeID == "" ||
			!slices.Contains(storage.DriftKinds, d.Kind) {
			return structs.Invalidf("a difference needs a kind and a volume of plugin %q", p.PluginID)
		}
	}
	if slices.ContainsFunc(p.Gone, other) || p.Summary != nil && p.Summary.PluginID != p.PluginID {
		return structs.Invalidf("the differences are not all of plugin %q", p.PluginID)
	}
	return nil
}

func putDriftSummary(tx *mvcc.WriteTx, p *storage.DriftRecordRequest) {
	old := DriftSummary(tx, p.PluginID)
	switch {
	case p.Summary == nil || p.Summary.Says(old):
	case !p.Summary.IsEmpty():
		row := *p.Summary
		row.Time = p.Now
		schema.DriftSummaries.Put(tx, &row)
	default:
		schema.DriftSummaries.Delete(tx, old)
	}
}

func countDrifts(tx mvcc.Reader, pluginID string) (n int) {
	for range schema.Drifts.Scan(tx, pluginID) {
		n++
	}
	return n
}

// forgetDrifts deletes the differences of a plugin that is gone.
func forgetDrifts(tx *mvcc.WriteTx, pluginID string) {
	for _, d := range slices.Collect(schema.Drifts.Scan(tx, pluginID)) {
		schema.Drifts.Delete(tx, d)
	}
	if s := DriftSummary(tx, pluginID); s != nil {
		schema.DriftSummaries.Delete(tx, s)
	}
}

// CheckDrifts checks that the plugins of the rows exist, and the bound on the rows.
func CheckDrifts(c *schema.Report) {
	schema.CheckIndexes(c, schema.Drifts)
	schema.CheckIndexes(c, schema.DriftSummaries)
	rows := map[string]int{}
	for d := range schema.Drifts.Scan(c) {
		rows[d.PluginID]++
	}
	for id, n := range rows {
		c.Want(Plugin(c, id) != nil, "plugin %s is gone and has %d differences", id, n)
		c.Want(n <= storage.MaxDrifts, "plugin %s has %d differences", id, n)
	}
	for s := range schema.DriftSummaries.Scan(c) {
		c.Want(Plugin(c, s.PluginID) != nil && !s.IsEmpty(),
			"plugin %s is gone, or has a summary that says nothing", s.PluginID)
	}
}

// DriftRepairFault returns why a difference is not repaired at a time (UnixNano), "" if it is.
func DriftRepairFault(tx mvcc.Reader, d *storage.VolumeDrift, now int64) string {
	v := VolumeByExternal(tx, d.PluginID, d.ExternalID)
	node := schema.Nodes.Get(tx, d.NodeID)
	a := Attachment(tx, d.Namespace, d.VolumeID, d.NodeID)
	at := &structs.CSIAttachment{Namespace: d.Namespace, VolumeID: d.VolumeID, NodeID: d.NodeID}
	switch {
	case PluginConfig(tx, d.PluginID).Drift != storage.DriftRepair:
		return "the settings of the plugin do not ask for repairs"
	case d.Kind != storage.DriftStrayAttachment && d.Kind != storage.DriftMissingAttachment:
		return "only attachments are repaired"
	case d.RepairTime != 0 && now < d.RepairTime+int64(storage.DriftRepairAgain):
		return "it was repaired a short time ago"
	case v == nil || v.Namespace != d.Namespace || v.ID != d.VolumeID || v.State != structs.VolumeReady ||
		v.Call != nil:
		return "the volume is not ready, or a call for it is in flight"
	case node == nil || node.Status != structs.NodeReady ||
		VolumeRecovering(tx, d.Namespace, d.VolumeID) != "":
		return "the node is not ready, or its volumes are not known"
	case d.Kind == storage.DriftStrayAttachment && (a != nil || isClaimed(tx, at)):
		return "a claim or an attachment uses it"
	case d.Kind == storage.DriftMissingAttachment &&
		(a == nil || a.State != structs.AttachmentAttached || a.Call != nil || !InUse(tx, a)):
		return "no claim needs it, or a call for it is in flight"
	}
	return ""
}

// isClaimed reports whether a claim, also one that waits, is for a volume on a node.
func isClaimed(tx mvcc.Reader, a *structs.CSIAttachment) bool {
	for c := range schema.Claims.Scan(tx, a.Namespace, a.VolumeID) {
		if c.NodeID == a.NodeID {
			return true
		}
	}
	return false
}

// DriftRepair changes the attachment of a difference so that the leader calls the plugin, and records the
// repair. It ignores a difference that is gone, or not to be repaired.
func DriftRepair(tx *mvcc.WriteTx, p *storage.DriftRepairRequest) error {
	d := Drift(tx, p.DriftKey)
	if d == nil || DriftRepairFault(tx, d, p.Now) != "" {
		return nil
	}

	row := *d
	row.RepairTime = p.Now
	if d.Kind == storage.DriftMissingAttachment {
		row.Repair = "attached again: a claim needs the attachment, and two lists of the plugin lacked it"
		attachAgain(tx, d, p.Now)
	} else {
		row.Repair = "detached: two lists of the plugin had the attachment, and neither a claim nor an " +
			"attachment of the cluster"
		detachStray(tx, d, p.Now)
	}
	schema.Drifts.Put(tx, &row)
	return nil
}

// attachAgain makes the attach of an attachment due. The answer to the repeated call replaces its context.
func attachAgain(tx *mvcc.WriteTx, d *storage.VolumeDrift, now int64) {
	a := Attachment(tx, d.Namespace, d.VolumeID, d.NodeID).Copy()
	a.State = structs.AttachmentAttaching
	a.LastError = nil
	a.ModifyTime = now
	schema.Attachments.Put(tx, a)
}

// detachStray puts the row of an attachment that has none, for its detach.
func detachStray(tx *mvcc.WriteTx, d *storage.VolumeDrift, now int64) {
	v := Volume(tx, d.Namespace, d.VolumeID)
	schema.Attachments.Put(tx, &structs.CSIAttachment{
		Namespace:        d.Namespace,
		VolumeID:         d.VolumeID,
		NodeID:           d.NodeID,
		PluginID:         d.PluginID,
		ExternalVolumeID: d.ExternalID,
		ExternalNodeID:   d.ExternalNodeID,
		Secrets:          v.Secrets.Copy(),
		SealedSecrets:    v.SealedSecrets,
		State:            structs.AttachmentDetaching,
		Found:            true,
		CreateTime:       now,
		ModifyTime:       now,
	})
}
