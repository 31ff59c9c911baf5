package csi

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// HealthOfPlugin yields the rows of a plugin.
func HealthOfPlugin(tx mvcc.Reader, pluginID string) iter.Seq[*storage.VolumeHealth] {
	return schema.HealthByPlugin.Scan(tx, pluginID)
}

// HealthFrom yields the rows of the volumes of a namespace that still exist.
func HealthFrom(tx *mvcc.ReadTx, ns string) iter.Seq[*storage.VolumeHealth] {
	rows := schema.Health.Range(tx, schema.NamespaceScope(ns, ""), mvcc.Page{})
	return schema.Filter(rows, func(h *storage.VolumeHealth) bool { return isHealthOf(tx, h) })
}

// HealthOf returns the row of a volume, nil if there is none.
func HealthOf(tx mvcc.Reader, k storage.UsageKey) *storage.VolumeHealth {
	h := schema.Health.Get(tx, k.Namespace, k.VolumeID)
	if h == nil || !isHealthOf(tx, h) {
		return nil
	}
	return h
}

// isHealthOf reports whether the volume of a row exists. Another one may have its ID.
func isHealthOf(tx mvcc.Reader, h *storage.VolumeHealth) bool {
	v := Volume(tx, h.Namespace, h.VolumeID)
	return v != nil && v.PluginID == h.PluginID && v.ExternalID == h.ExternalID
}

// HealthRecord changes the rows of a plugin. A row that exists keeps its time. It stores no row of a volume
// that the plugin does not have, and beyond storage.MaxHealthRows no other one.
func HealthRecord(tx *mvcc.WriteTx, p *storage.HealthRecordRequest) error {
	err := checkHealthRecord(p)
	if err != nil || Plugin(tx, p.PluginID) == nil {
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
		if h.Says(old) || !isHealthOf(tx, h) || other && count >= storage.MaxHealthRows {
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

// checkHealthRecord checks the bounds of a request, and that it is about one plugin.
func checkHealthRecord(p *storage.HealthRecordRequest) error {
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

// ForgetHealth deletes the rows of a plugin that is gone.
func ForgetHealth(tx *mvcc.WriteTx, pluginID string) {
	for _, h := range slices.Collect(schema.HealthByPlugin.Scan(tx, pluginID)) {
		schema.Health.Delete(tx, h)
	}
}

// CheckHealth checks that the plugins of the rows exist, and the bound on the rows.
func CheckHealth(c *schema.Report) {
	schema.CheckIndexes(c, schema.Health)
	rows := map[string]int{}
	for h := range schema.Health.Scan(c) {
		rows[h.PluginID]++
	}
	for id, n := range rows {
		c.Want(Plugin(c, id) != nil, "plugin %s is gone, and %d of its volumes have a health", id, n)
		c.Want(n <= storage.MaxHealthRows, "plugin %s has %d volumes with a health", id, n)
	}
}
