package csi

import (
	"cmp"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// VolumeStubs returns a function that writes the stub of a volume, like VolumeStub. It is fast if the volumes
// come in the order of their keys: it reads their claim queues in that order too, and each plugin once.
func VolumeStubs(tx *mvcc.ReadTx) func(*structs.CSIVolume, *structs.CSIVolumeListStub) {
	return stubsWith(tx, placelessAmong(tx))
}

// stubsWith is VolumeStubs with a function that reports the same as Placeless.
func stubsWith(
	tx *mvcc.ReadTx, placeless func(*structs.CSIVolume) bool,
) func(*structs.CSIVolume, *structs.CSIVolumeListStub) {
	counts := queueCounts(tx)
	summaries := map[string]pluginSummary{}
	someDrift := schema.Drifts.Has(tx)
	return func(v *structs.CSIVolume, s *structs.CSIVolumeListStub) {
		*s = bareStub(v)
		countClaims(s, counts(v))
		if someDrift {
			s.Drift = driftText(tx, v)
		}

		// Most volumes of a list have one of a few plugins.
		plugin, known := summaries[v.PluginID]
		if !known {
			plugin = summarizePlugin(tx, v.PluginID)
			summaries[v.PluginID] = plugin
		}

		plugin.fillStub(v, s)
		s.Schedulable = s.Schedulable && !placeless(v)
	}
}

// driftText names the kinds of the differences of a volume, "" for none.
func driftText(tx mvcc.Reader, v *structs.CSIVolume) string {
	var kinds []string
	for d := range schema.DriftsByVolume.Scan(tx, v.Namespace, v.ID) {
		if !slices.Contains(kinds, d.Kind) {
			kinds = append(kinds, d.Kind)
		}
	}
	slices.Sort(kinds)
	return strings.Join(kinds, ", ")
}

// fewQueues is the number of volumes whose queues a blocking query watches one by one. A query of more
// volumes watches all queues of their namespaces: to watch thousands of keys for each blocking list costs
// more than an occasional repetition.
const fewQueues = 64

// queueCounts returns a function that counts the claims of one volume after another.
func queueCounts(tx *mvcc.ReadTx) func(*structs.CSIVolume) []structs.CSIClassCount {
	cursor := queueCursor{tx: tx}
	if !tx.Watched() {
		return cursor.countsOf
	}

	seen := 0
	watched := map[string]bool{}
	return func(v *structs.CSIVolume) []structs.CSIClassCount {
		seen++
		if seen <= fewQueues {
			return ClassCounts(tx, v.Namespace, v.ID)
		}

		if !watched[v.Namespace] {
			watched[v.Namespace] = true

			// The query watches what it reads, so it watches all queues of the namespace by this. The answer
			// does not matter.
			schema.ClaimQueues.Has(tx, v.Namespace)
		}

		return cursor.countsOf(v)
	}
}

// queueCursor reads the rows of the claim queues volume by volume.
type queueCursor struct {
	tx   *mvcc.ReadTx
	rows *mvcc.Cursor[*structs.CSIClaimQueueRow]
	head *structs.CSIClaimQueueRow // the next row, nil at the end
	last *structs.CSIVolume
}

// fewSteps is the number of rows over which the cursor steps before it seeks.
const fewSteps = 16

// countsOf returns the counts of the volume's claims.
func (k *queueCursor) countsOf(v *structs.CSIVolume) []structs.CSIClassCount {
	if k.last == nil ||
		compareVolume(k.last.Namespace, k.last.ID, v) > 0 {
		k.seek(v)
	}

	k.last = v

	// The volumes come in the order of the rows, so the next row is mostly near. After a gap a seek is
	// cheaper.
	for steps := 0; k.compareHead(v) < 0; steps++ {
		if steps == fewSteps {
			k.seek(v)
			break
		}

		k.step()
	}

	if k.compareHead(v) == 0 {
		return k.head.Classes
	}

	return nil
}

// compareHead compares the next row with the row of a volume. The end is after all volumes.
func (k *queueCursor) compareHead(v *structs.CSIVolume) int {
	if k.head == nil {
		return 1
	}
	return compareVolume(k.head.Namespace, k.head.VolumeID, v)
}

func (k *queueCursor) step() {
	k.head = k.rows.Next()
}

// seek makes the row of a volume, or the first one after it, the next row.
func (k *queueCursor) seek(v *structs.CSIVolume) {
	k.rows = schema.ClaimQueues.Seek(k.tx, v.Namespace, v.ID)
	k.step()
}

func compareVolume(ns, id string, v *structs.CSIVolume) int {
	return cmp.Or(cmp.Compare(ns, v.Namespace), cmp.Compare(id, v.ID))
}
