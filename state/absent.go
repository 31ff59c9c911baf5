package state

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// absences tell readers that the first row has come where there was none. Where there is a row, memdb's
// channels are precise; where there is none they are those of the nearest neighbours, so that ten thousand
// nodes without an allocation would all look again whenever one gets its first.
type absences struct {
	waiting atomic.Int64 // how many there are

	mu      sync.Mutex
	byPlace map[string]map[string]map[string]*absence // by table, index and beginning of a key
}

// absence is one place without rows, with those who wait for the first one.
type absence struct {
	filled  chan struct{}
	readers int
}

// gap is a place where a reader found nothing: no row of the table has a key in the index that begins so.
type gap struct {
	table, index string
	key          key
}

// noteRange notes what a waiting reader found at a key: the channel of what is there, or the gap.
func (tx *Read) noteRange(table *memdb.TableSchema, number int, index string, k key, ch <-chan struct{}, empty bool) {
	if tx.watch == nil || tx.whole&(1<<number) != 0 {
		return
	}
	whole := len(k) > 0 && k[len(k)-1] == 0 // ends with a part: such a beginning is found from a row's key
	if !empty || !whole || len(tx.gaps) >= manyWatches {
		tx.note(number, ch)
		return
	}
	tx.gaps = append(tx.gaps, gap{table.Name, index, k})
}

// waitGaps adds to the set a channel for each gap of r. It reports false when there is nothing to wait for,
// since a gap has been filled already. Whoever has waited says leave.
func (s *Store) waitGaps(r *Read, set memdb.WatchSet) (leave func(), wait bool) {
	joined := s.absences.join(r.gaps, set)
	leave = func() { s.absences.leave(r.gaps, joined) }
	// Looked up after joining: what was written before is seen here, what is written after tells us.
	c := s.now.Load()
	if c != r.content {
		return leave, false
	}
	txn := c.db.Txn(false)
	for _, g := range r.gaps {
		it, err := txn.Get(g.table, g.index, g.key)
		if err != nil {
			panic(err) // the schema and this code disagree
		}
		if it.Next() != nil {
			return leave, false
		}
	}
	return leave, true
}

func (a *absences) join(gaps []gap, set memdb.WatchSet) []*absence {
	a.mu.Lock()
	defer a.mu.Unlock()
	joined := make([]*absence, len(gaps))
	for i, g := range gaps {
		at := a.place(g)[string(g.key)]
		if at == nil {
			at = &absence{filled: make(chan struct{})}
			a.place(g)[string(g.key)] = at
			a.waiting.Add(1)
		}
		at.readers++
		joined[i] = at
		set.Add(at.filled)
	}
	return joined
}

// place wants a.mu held.
func (a *absences) place(g gap) map[string]*absence {
	if a.byPlace == nil {
		a.byPlace = map[string]map[string]map[string]*absence{}
	}
	if a.byPlace[g.table] == nil {
		a.byPlace[g.table] = map[string]map[string]*absence{}
	}
	if a.byPlace[g.table][g.index] == nil {
		a.byPlace[g.table][g.index] = map[string]*absence{}
	}
	return a.byPlace[g.table][g.index]
}

func (a *absences) leave(gaps []gap, joined []*absence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, g := range gaps {
		at := joined[i]
		if at.readers--; at.readers == 0 && a.place(g)[string(g.key)] == at {
			delete(a.place(g), string(g.key))
			a.waiting.Add(-1)
		}
	}
}

// fill wakes those who wait where these changes, which everybody sees by now, have put rows.
func (a *absences) fill(changes []change) {
	if a.waiting.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		if c.now == nil {
			continue
		}
		for index, waiting := range a.byPlace[c.table] {
			if len(waiting) == 0 {
				continue
			}
			for _, k := range keysIn(c.table, index, c.now) {
				a.filled(waiting, k)
			}
		}
	}
}

// filled wakes those who wait for what the key begins with.
func (a *absences) filled(waiting map[string]*absence, k key) {
	for i, b := range k {
		if b != 0 {
			continue
		}
		if at := waiting[string(k[:i+1])]; at != nil {
			close(at.filled)
			delete(waiting, string(k[:i+1]))
			a.waiting.Add(-1)
		}
	}
}

// keysIn are the keys of a row in an index.
func keysIn(table, index string, row any) []key {
	switch x := schema().db.Tables[table].Indexes[index].Indexer.(type) {
	case memdb.SingleIndexer:
		if ok, k, _ := x.FromObject(row); ok {
			return []key{k}
		}
	case memdb.MultiIndexer:
		_, ks, _ := x.FromObject(row)
		out := make([]key, len(ks))
		for i, k := range ks {
			out[i] = k
		}
		return out
	}
	return nil
}
