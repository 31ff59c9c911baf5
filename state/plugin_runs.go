package state

import (
	"slices"

	"berth/state/csi"
	"berth/structs"
)

// PluginHalves lists the halves of plugins that the allocation runs, none if it is nil or has ended.
func PluginHalves(tx Reader, a *structs.Allocation) []structs.CSIInstanceKey {
	if a == nil || a.ClientTerminal() || len(a.CSIPlugins) == 0 {
		return nil
	}

	group := groupOf(tx, a)
	if group == nil {
		return nil
	}

	var halves []structs.CSIInstanceKey
	for _, t := range group.Tasks {
		p := t.CSIPluginConfig
		if p == nil || !slices.Contains(a.CSIPlugins, p.ID) {
			continue
		}

		for _, kind := range p.Kinds() {
			halves = append(halves, structs.CSIInstanceKey{PluginID: p.ID, Kind: kind})
		}
	}

	return halves
}

// recountAlloc updates the counts of the plugins that an allocation ran or runs now. old may be nil.
func recountAlloc(tx *WriteTx, old, now *structs.Allocation) {
	// The halves depend on the version and on the end alone, and most changes are of neither.
	if old != nil && old.JobVersion == now.JobVersion &&
		old.ClientTerminal() == now.ClientTerminal() {
		return
	}
	none := csi.Tally{}
	one := csi.Tally{Runs: 1}
	for _, half := range PluginHalves(tx, old) {
		csi.RecountHalf(tx, half, one, none)
	}
	for _, half := range PluginHalves(tx, now) {
		csi.RecountHalf(tx, half, none, one)
	}
}
