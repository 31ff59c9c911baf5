// Package space records the places in which plugins had no space for a volume, so that jobs that ask for
// volumes are placed elsewhere for a while.
package space

import (
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/jobvolume"
)

// maxPlaces is the most rows of a plugin. A plugin with more begins anew.
const maxPlaces = 1000

// Exhausted returns the record of a place in which volumes of a class found no space, nil for none. The place
// may be nil.
func Exhausted(tx mvcc.Reader, pluginID, class string, place *structs.CSITopology) *jobvolume.Exhaustion {
	return schema.Exhausted.Get(tx, pluginID, class, jobvolume.PlaceText(place))
}

// Note records that a volume found no space in the place that it had requested.
func Note(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	count := 0
	for range schema.Exhausted.Scan(tx, v.PluginID) {
		count++
	}
	if count >= maxPlaces {
		Forget(tx, v.PluginID)
	}

	row := &jobvolume.Exhaustion{
		PluginID: v.PluginID,
		Class:    v.Class,
		Place:    jobvolume.PlaceText(requested(v)),
		Bytes:    v.RequestedCapacityMin,
		Time:     now,
	}
	old := schema.Exhausted.Get(tx, row.PluginID, row.Class, row.Place)
	if old != nil && now < old.Time+int64(jobvolume.RetryAfter) {
		row.Bytes = min(row.Bytes, old.Bytes)
	}
	schema.Exhausted.Put(tx, row)
}

// Forget deletes the records of a plugin: one of its volumes was deleted.
func Forget(tx *mvcc.WriteTx, pluginID string) {
	for _, row := range slices.Collect(schema.Exhausted.Scan(tx, pluginID)) {
		schema.Exhausted.Delete(tx, row)
	}
}

// requested returns the place in which a volume was to be made, nil for any.
func requested(v *structs.CSIVolume) *structs.CSITopology {
	if v.RequestedTopologies == nil || len(v.RequestedTopologies.Required) != 1 {
		return nil
	}
	return v.RequestedTopologies.Required[0]
}
