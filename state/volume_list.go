package state

import (
	"cmp"

	"berth/internal/mvcc"
	"berth/structs"
)

// VolumeStubs returns a function that writes the stub of a volume, like VolumeStub. It is fast if the volumes
// come in the order of their keys: it scans their claim queues in step with them, and reads each plugin once.
func VolumeStubs(tx *ReadTx) func(*structs.CSIVolume, *structs.CSIVolumeListStub) {
	counts := queueCounts(tx)
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

// fewQueues is the number of volumes whose queues a blocking query watches one by one. A query of more
// volumes watches all queues of their namespaces: to watch thousands of keys for each blocking list costs
// more than an occasional repetition.
const fewQueues = 64

// queueCounts returns a function that counts the claims of one volume after another.
func queueCounts(tx *ReadTx) func(*structs.CSIVolume) []structs.CSIClassCount {
	along := queueCursor{tx: tx}
	if !tx.Watched() {
		return along.of
	}
	seen := 0
	watched := map[string]bool{}
	return func(v *structs.CSIVolume) []structs.CSIClassCount {
		seen++
		if seen <= fewQueues {
			return classCounts(tx, v.Namespace, v.ID)
		}
		if !watched[v.Namespace] {
			watched[v.Namespace] = true
			claimQueues.Has(tx, v.Namespace)
		}
		return along.of(v)
	}
}

// queueCursor reads the rows of the claim queues volume by volume.
type queueCursor struct {
	tx   *ReadTx
	rows *mvcc.Cursor[structs.CSIClaimQueueRow]
	head *structs.CSIClaimQueueRow // the next row, nil at the end
	last *structs.CSIVolume
}

// fewSteps is how many rows the cursor steps over before it seeks.
const fewSteps = 16

func (k *queueCursor) of(v *structs.CSIVolume) []structs.CSIClassCount {
	if k.last == nil ||
		compareVolume(k.last.Namespace, k.last.ID, v) > 0 {
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
	if k.head != nil &&
		compareVolume(k.head.Namespace, k.head.VolumeID, v) == 0 {
		return k.head.Classes
	}
	return nil
}

func (k *queueCursor) step() {
	k.head = k.rows.Next()
}

func (k *queueCursor) seek(v *structs.CSIVolume) {
	k.rows = claimQueues.Seek(k.tx, v.Namespace, v.ID)
	k.step()
}

func compareVolume(ns, id string, v *structs.CSIVolume) int {
	return cmp.Or(cmp.Compare(ns, v.Namespace),
		cmp.Compare(id, v.ID))
}
