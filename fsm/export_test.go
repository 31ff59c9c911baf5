package fsm

import (
	"pgregory.net/rapid"

	"berth/state"
)

// DrawEntry draws a log entry, which may be a batch.
func DrawEntry(t *rapid.T, tx *state.ReadTx) []byte {
	d := dice{t}
	if d.upTo(9) == 0 {
		return d.batch(tx)
	}
	return d.entry(tx)
}
