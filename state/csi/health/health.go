// Package health has the rows of the volumes that the controllers of their plugins do not report as healthy.
package health

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/check"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// OfPlugin yields the rows of a plugin.
func OfPlugin(tx mvcc.Reader, pluginID string) iter.Seq[*storage.VolumeHealth] {
	return schema.HealthByPlugin.Scan(tx, pluginID)
}

// From yields the rows of the volumes of a namespace that still exist.
func From(tx *mvcc.ReadTx, ns string) iter.Seq[*storage.VolumeHealth] {
	rows := schema.Health.Range(tx, schema.NamespaceScope(ns, ""), mvcc.Page{})
	return schema.Filter(rows, func(h *storage.VolumeHealth) bool { return isOf(tx, h) })
}

// Of returns the row of a volume, nil if there is none.
func Of(tx mvcc.Reader, k storage.UsageKey) *storage.VolumeHealth {
	h := schema.Health.Get(tx, k.Namespace, k.VolumeID)
	if h == nil || !isOf(tx, h) {
		return nil
	}
	return h
}

// isOf reports whether the volume of a row exists. Another one may have its ID.
func isOf(tx mvcc.Reader, h *storage.VolumeHealth) bool {
	v := csi.Volume(tx, h.Namespace, h.VolumeID)
	return v != nil && v.PluginID == h.PluginID && v.ExternalID == h.ExternalID
}

// Record changes the rows of a plugin. A row that exists keeps its time. It stores no row of a volume that
// the plugin does not have, and beyond storage.MaxHealthRows no other one.
func Record(tx *mvcc.WriteTx, p *storage.HealthRecordRequest) error {
	err := checkRecord(p)
	if err != nil || csi.Plugin(tx, p.PluginID) == nil {
		return err
	}

	for _, k := range p.Gone {
		old := schema.Health.Get(tx, k.Namespace, k.VolumeID)
		if old != nil && old.PluginID == p.PluginID {
			schema.Health.Delete(tx, old)
		}
	}
	count := 0
	for range schema.HealthByPlugin.Scan(tx, p.PluginID) {
		count++
	}
	for _, h := range p.Found {
		old := schema.Health.Get(tx, h.Namespace, h.VolumeID)
		other := old == nil || old.PluginID != p.PluginID
		if h.Says(old) || !isOf(tx, h) || other && count >= storage.MaxHealthRows {
			continue
		}
		row := *h
		row.Since = p.Now
		if other {
			count++
		} else if old.ExternalID == h.ExternalID {
			row.Since = old.Since
		}
		schema.Health.Put(tx, &row)
	}
	return nil
}

// checkRecord checks the bounds of a request, and that it is about one plugin.
func checkRecord(p *storage.HealthRecordRequest) error {
	if len(p.Found) > storage.MaxHealthChanges || len(p.Gone) > storage.MaxHealthChanges {
		return structs.Invalidf("the health of %d and %d volumes is more than of %d",
			len(p.Found), len(p.Gone), storage.MaxHealthChanges)
	}
	for _, h := range p.Found {
		if h == nil || h.PluginID != p.PluginID || h.VolumeID == "" || h.Condition.IsEmpty() {
			return structs.Invalidf("the health needs a volume of plugin %q and a condition", p.PluginID)
		}
	}
	return nil
}

// Forget deletes the rows of a plugin that is gone.
func Forget(tx *mvcc.WriteTx, pluginID string) {
	for _, h := range slices.Collect(schema.HealthByPlugin.Scan(tx, pluginID)) {
		schema.Health.Delete(tx, h)
	}
}

// Check checks that the plugins of the rows exist, and the bound on the rows.
func Check(c *check.Report) {
	check.Indexes(c, schema.Health)
	rows := map[string]int{}
	for h := range schema.Health.Scan(c) {
		rows[h.PluginID]++
	}
	for id, n := range rows {
		c.Want(csi.Plugin(c, id) != nil, "plugin %s is gone, and %d of its volumes have a health", id, n)
		c.Want(n <= storage.MaxHealthRows, "plugin %s has %d volumes with a health", id, n)
	}
}
