package mvcc

// slot is the stable cell of a row. The trees hold it under each key of the row, in place of the row. To
// replace a row by one with the same keys changes nothing in the trees, however many indexes there are.
type slot struct {
	number uint32 // from 1 on, 0 until the row is first written; it never changes for readers
}

// cell is a row and its slot. Both are nil where there is no row.
type cell struct {
	slot *slot
	row  any
}
