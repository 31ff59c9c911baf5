package state

import (
	"strconv"

	"berth/structs"
)

// deriveID returns an ID for a row that the entry inserts. Every server derives the same ID, and no other
// entry of the log index derives it.
func deriveID(tx *WriteTx, parts ...string) string {
	// The entries of a batch have one log index, and the number of the part tells them apart.
	if n := tx.Part(); n > 0 {
		parts = append(parts, "part", strconv.Itoa(n))
	}
	return structs.DeriveID(tx.Index, parts...)
}
