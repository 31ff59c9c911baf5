package structs

// TableIndex is the row of a snapshot file with the log index at which a table last changed. The row
// "applied" has the index of the last entry applied.
type TableIndex struct {
	Name   string
	Newest uint64
	Indexes
}
