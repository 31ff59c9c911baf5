package state

import (
	"cmp"

	"berth/internal/mvcc"
	"berth/structs"
)

// VolumeStubs returns a function that writes the stub of a volume, as VolumeStub makes it. It is quick when the
// volumes come in the order of their keys: it reads their claim queues side by side with them, and what they
// show of a plugin once.
func VolumeStubs(tx *ReadTx) func(*structs.CSIVolume, *structs.CSIVolumeListStub) {
	counts := lineCounts(tx)
	looks := map[string]pluginLook{}
	return func(v *structs.CSIVolume, s *structs.CSIVolumeListStub) {
		*s = bareStub(v)
		countClaims(s, counts(v))
		look, known := looks[v.PluginID]
		if !known {
			look = lookOf(tx, v.PluginID)
			looks[v.PluginID] = look
		}
		look.show(v, s)
	}
}

// fewLines is for how many volumes one who waits watches the line of each. Who looks at more watches the lines of
// whole namespaces: to come and go, for each list that waits, with thousands of places costs more than to look
// again now and then.
const fewLines = 64

// lineCounts looks up what claims there are, volume by volume.
func lineCounts(tx *ReadTx) func(*structs.CSIVolume) []structs.CSIClassCount {
	along := lineCursor{tx: tx}
	if !tx.Watched() {
		return along.of
	}
	seen, watched := 0, map[string]bool{}
	return func(v *structs.CSIVolume) []structs.CSIClassCount {
		if seen++; seen <= fewLines {
			return lineOf(tx, v.Namespace, v.ID)
		}
		if !watched[v.Namespace] {
			watched[v.Namespace] = true
			lines.Has(tx, v.Namespace)
		}
		return along.of(v)
	}
}

// lineCursor walks through the lines volume by volume.
type lineCursor struct {
	tx   *ReadTx
	rows *mvcc.Cursor[structs.CSIClaimQueueRow]
	head *structs.CSIClaimQueueRow // the next row, nil at the end
	last *structs.CSIVolume
}

// fewSteps is how many rows are stepped over rather than sought past.
const fewSteps = 16

func (k *lineCursor) of(v *structs.CSIVolume) []structs.CSIClassCount {
	if k.last == nil || compareVolume(k.last.Namespace, k.last.ID, v) > 0 {
		k.seek(v)
	}
	k.last = v
	for steps := 0; k.head != nil && compareVolume(k.head.Namespace, k.head.VolumeID, v) < 0; steps++ {
		if steps == fewSteps {
			k.seek(v)
			break
		}
		k.step()
	}
	if k.head != nil && compareVolume(k.head.Namespace, k.head.VolumeID, v) == 0 {
		return k.head.Classes
	}
	return nil
}

func (k *lineCursor) step() { k.head = k.rows.Next() }

func (k *lineCursor) seek(v *structs.CSIVolume) {
	k.rows = lines.Seek(k.tx, v.Namespace, v.ID)
	k.step()
}

func compareVolume(ns, id string, v *structs.CSIVolume) int {
	return cmp.Or(cmp.Compare(ns, v.Namespace), cmp.Compare(id, v.ID))
}
