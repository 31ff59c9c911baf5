package mvcc

import "slices"

// cellNumbers gives numbers to rows and reuses the numbers of deleted rows. It belongs to the writer. The
// changes of a batch count from its end on: until then readers and the batch itself may need the rows.
type cellNumbers struct {
	last         uint32 // the largest number given so far; 0 is never given
	unused       []uint32
	taken, freed []uint32 // by the current batch
}

// Alloc returns a number for a row.
func (a *cellNumbers) Alloc() (number uint32) {
	if n := len(a.unused); n > 0 {
		number = a.unused[n-1]
		a.unused = a.unused[:n-1]
	} else {
		number = a.Fresh()
	}
	a.taken = append(a.taken, number)
	return number
}

// Fresh returns a number that was never used.
func (a *cellNumbers) Fresh() uint32 {
	a.last++
	return a.last
}

// Free gives back the number of a deleted row.
func (a *cellNumbers) Free(number uint32) {
	a.freed = append(a.freed, number)
}

// Revive takes back the free of a row that the batch deleted and that a rollback restored.
func (a *cellNumbers) Revive(number uint32) {
	i := slices.Index(a.freed, number)
	if i >= 0 {
		a.freed = slices.Delete(a.freed, i, i+1)
	}
}

// Commit makes the numbers available that the batch has freed.
func (a *cellNumbers) Commit() {
	a.release(a.freed)
}

// Rollback makes the numbers available that an aborted batch has allocated.
func (a *cellNumbers) Rollback() {
	a.release(a.taken)
}

func (a *cellNumbers) release(numbers []uint32) {
	a.unused = append(a.unused, numbers...)
	a.taken = a.taken[:0]
	a.freed = a.freed[:0]
}

// Unused returns the numbers that no row has, the largest number given so far, and how many numbers the
// current batch has taken or freed: 0 between two batches.
func (a *cellNumbers) Unused() (unused []uint32, last uint32, pending int) {
	return slices.Clone(a.unused), a.last, len(a.taken) + len(a.freed)
}
