package state

import (
	"strconv"

	"berth/structs"
)

// deriveID returns an ID for a row that the entry inserts. Every server derives the same ID, and no other
// entry of the log index derives it.
func deriveID(tx *WriteTx, parts ...string) string {
	if n := tx.Part(); n > 0 {
		parts = append(parts, "part", strconv.Itoa(n))
	}
	return structs.DeriveID(tx.Index, parts...)
}
