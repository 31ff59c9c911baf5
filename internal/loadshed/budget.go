package loadshed

import "sync/atomic"

// Budget bounds the bytes that requests in flight take together, so that many large requests do not take the
// memory of the process that serves them.
//
// A caller takes bytes before it allocates them and gives them back when nothing refers to them any more. A
// Budget never blocks: a caller without bytes rejects its request.
type Budget struct {
	most int64
	used atomic.Int64
}

// NewBudget returns a budget of the given number of bytes.
func NewBudget(most int64) *Budget {
	return &Budget{most: most}
}

// Take takes n bytes, or none and reports false if fewer are left.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) <= b.most {
		return true
	}
	b.used.Add(-n)
	return false
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) {
	b.used.Add(-n)
}
