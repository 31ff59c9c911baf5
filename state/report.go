package state

import (
	"fmt"
	"maps"
	"slices"

	"berth/internal/mvcc"
	"berth/structs"
)

// mostFaults bounds the number of faults that Check describes, and mostFaultBytes the length of each
// description, because the rows may come from a damaged file.
const (
	mostFaults     = 1000
	mostFaultBytes = 500
)

// report reads a store and collects the violated invariants.
type report struct {
	*ReadTx
	faults []string
	more   int // faults that are not described
}

// newReport returns an empty report on the rows of a snapshot.
func newReport(tx *ReadTx) *report { return &report{ReadTx: tx} }

// Want records a fault unless ok.
func (c *report) Want(ok bool, format string, args ...any) {
	switch {
	case ok:
	case len(c.faults) < mostFaults:
		c.faults = append(c.faults,
			structs.Cut(fmt.Sprintf(format, args...), mostFaultBytes))
	default:
		c.more++
	}
}

// Faults returns the descriptions of the faults, nil for none. If there are more than it describes, the last
// line has the number of the others.
func (c *report) Faults() []string {
	if c.more == 0 {
		return c.faults
	}
	return append(c.faults[:len(c.faults):len(c.faults)], fmt.Sprintf("and %d more", c.more))
}

// wantCounts records a fault for each key whose stored number differs from the counted one.
func wantCounts[N comparable](
	c *report,
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

// checkIndexes records a fault for each row of a table whose create and modify indexes do not fit each other,
// the newest of the table and the last entry of the store.
func checkIndexes[R mvcc.Record](c *report, t *mvcc.Table[R]) {
	applied := c.Applied()
	newest := t.Newest(c)
	for r := range t.Scan(c) {
		created, modified := r.Stamps()
		c.Want(created <= modified && modified <= newest && newest <= applied,
			"%s %q: created at %d, modified at %d, table at %d, store at %d",
			t.Name(), t.KeyOfRow(r), created, modified, newest, applied)
	}
}
