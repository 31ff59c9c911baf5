package schema

import (
	"fmt"
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
)

// MostFaults bounds the number of faults that a Report describes, and MostFaultBytes the length of each
// description, because the rows may come from a damaged file.
const (
	MostFaults     = 1000
	MostFaultBytes = 500
)

// Report reads a store and collects the violated invariants.
type Report struct {
	*mvcc.ReadTx
	faults []string
	more   int // faults that are not described
}

// NewReport returns an empty report on the rows of a snapshot.
func NewReport(tx *mvcc.ReadTx) *Report { return &Report{ReadTx: tx} }

// Want records a fault unless ok.
func (c *Report) Want(ok bool, format string, args ...any) {
	switch {
	case ok:
	case len(c.faults) < MostFaults:
		c.faults = append(c.faults,
			structs.Cut(fmt.Sprintf(format, args...), MostFaultBytes))
	default:
		c.more++
	}
}

// Faults returns the descriptions of the faults, nil for none. If there are more than it describes, the last
// line has the number of the others.
func (c *Report) Faults() []string {
	if c.more == 0 {
		return c.faults
	}
	return append(c.faults[:len(c.faults):len(c.faults)], fmt.Sprintf("and %d more", c.more))
}

// CheckCounts records a fault for each key whose stored number differs from the counted one.
func CheckCounts[N comparable](
	c *Report,
	subject string,
	counted, kept map[string]N,
) {
	keys := maps.Clone(counted)
	maps.Copy(keys, kept)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		is, found := counted[k]
		row, there := kept[k]
		c.Want(is == row && found == there,
			"%s %s: counted %+v, kept %+v", subject, k, is, row)
	}
}

// CheckIndexes records a fault for each row of a table whose create and modify indexes do not fit each other,
// the newest of the table and the last entry of the store.
func CheckIndexes[R mvcc.Record](c *Report, t *mvcc.Table[R]) {
	applied := c.Applied()
	newest := t.Newest(c)
	for r := range t.Scan(c) {
		created, modified := r.Stamps()
		c.Want(created <= modified && modified <= newest && newest <= applied,
			"%s %q: created at %d, modified at %d, table at %d, store at %d",
			t.Name(), t.KeyOfRow(r), created, modified, newest, applied)
	}
}
