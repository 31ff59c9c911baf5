package csi

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// maxExhaustedPlaces is the most rows of a plugin. A plugin with more begins anew.
const maxExhaustedPlaces = 1000

// Exhausted returns the record of a place in which volumes of a class found no space, nil for none. The place
// may be nil.
func Exhausted(tx mvcc.Reader, pluginID, class string, place *structs.CSITopology) *storage.Exhaustion {
	return schema.Exhausted.Get(tx, pluginID, class, storage.TopologyText(place))
}

// ExhaustionsOfClass yields the records of a class of a plugin, by place.
func ExhaustionsOfClass(tx mvcc.Reader, pluginID, class string) iter.Seq[*storage.Exhaustion] {
	return schema.Exhausted.Scan(tx, pluginID, class)
}

// VolumeSpace records answers of plugins to GetCapacity. It ignores answers for a class that is gone, or has
// another plugin by now.
func VolumeSpace(tx *mvcc.WriteTx, p *storage.SpaceRequest) error {
	if len(p.Answers) > storage.MaxSpaceAnswers {
		return structs.Invalidf("%d answers about space are more than %d", len(p.Answers), storage.MaxSpaceAnswers)
	}
	for _, a := range p.Answers {
		if a == nil || a.Left < 0 || a.MaxVolume < 0 {
			return structs.Invalidf("an answer about space needs sizes of at least 0 bytes")
		}
		c := schema.VolumeClasses.Get(tx, a.Class)
		if c == nil || c.PluginID != a.PluginID {
			continue
		}

		row := &storage.Exhaustion{PluginID: a.PluginID, Class: a.Class, Place: a.Place}
		old := schema.Exhausted.Get(tx, a.PluginID, a.Class, a.Place)
		if old != nil {
			row.Bytes = old.Bytes
			row.Time = old.Time
		} else {
			boundExhaustedPlaces(tx, a.PluginID)
		}
		row.Left = a.Left
		row.MaxVolume = a.MaxVolume
		row.LeftTime = p.Now
		schema.Exhausted.Put(tx, row)
	}
	return nil
}

// boundExhaustedPlaces deletes the records of a plugin that has as many as it may have.
func boundExhaustedPlaces(tx *mvcc.WriteTx, pluginID string) {
	count := 0
	for range schema.Exhausted.Scan(tx, pluginID) {
		count++
	}
	if count >= maxExhaustedPlaces {
		forgetSpace(tx, pluginID)
	}
}

// NoteExhaustion records that a volume found no space in the place that it had requested.
func NoteExhaustion(tx *mvcc.WriteTx, v *structs.CSIVolume, now int64) {
	boundExhaustedPlaces(tx, v.PluginID)
	row := &storage.Exhaustion{
		PluginID: v.PluginID,
		Class:    v.Class,
		Place:    storage.TopologyText(requestedPlace(v)),
		Bytes:    v.RequestedCapacityMin,
		Time:     now,
	}
	old := schema.Exhausted.Get(tx, row.PluginID, row.Class, row.Place)
	if old != nil {
		row.Left = old.Left
		row.MaxVolume = old.MaxVolume
		row.LeftTime = old.LeftTime
	}
	if old != nil && now < old.Time+int64(storage.SpaceRetryAfter) {
		row.Bytes = min(row.Bytes, old.Bytes)
	}
	schema.Exhausted.Put(tx, row)
}

// forgetClassSpace deletes the records of a class that is deleted, or gets another plugin.
func forgetClassSpace(tx *mvcc.WriteTx, pluginID, class string) {
	for _, row := range slices.Collect(ExhaustionsOfClass(tx, pluginID, class)) {
		schema.Exhausted.Delete(tx, row)
	}
}

// forgetSpace deletes the records of a plugin: one of its volumes was deleted, or it is gone.
func forgetSpace(tx *mvcc.WriteTx, pluginID string) {
	for _, row := range slices.Collect(schema.Exhausted.Scan(tx, pluginID)) {
		schema.Exhausted.Delete(tx, row)
	}
}

// requestedPlace returns the place in which a volume was to be made, nil for any.
func requestedPlace(v *structs.CSIVolume) *structs.CSITopology {
	if v.RequestedTopologies == nil || len(v.RequestedTopologies.Required) != 1 {
		return nil
	}
	return v.RequestedTopologies.Required[0]
}
