package state

import (
	"context"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// Store holds the rows. Any number of readers see consistent snapshots while one writer works; all of
// its methods may be called from many goroutines at once.
type Store struct {
	now      atomic.Pointer[content]
	absences absences
}

// content is one database. Load replaces it whole; abandoned is closed then, to wake who waits on it.
type content struct {
	db        *memdb.MemDB
	abandoned chan struct{}
	pool      *pool // the writer's
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.now.Store(newContent())
	return s
}

func newContent() *content {
	db, err := memdb.NewMemDB(schema().db)
	if err != nil {
		panic(err) // the schema is a constant of the program
	}
	b := &Batch{txn: db.Txn(true)}
	for _, t := range schema().tables {
		b.mark(t.name(), 0) // there from the start, so that each can be watched by itself
	}
	b.mark(appliedMark, 0)
	b.txn.Commit()
	return &content{db: db, abandoned: make(chan struct{}), pool: newPool()}
}

// Read returns a consistent snapshot. It costs next to nothing and needs no Close, but belongs to one
// goroutine.
func (s *Store) Read() *Read {
	c := s.now.Load()
	return &Read{content: c, txn: c.db.Txn(false)}
}

// Watching is Read for one who will Wait: it remembers the very rows and ranges it looked at.
func (s *Store) Watching() *Read {
	tx := s.Read()
	tx.watch = memdb.NewWatchSet()
	return tx
}

// Index is the Raft index of the last entry applied, 0 before the first.
func (s *Store) Index() uint64 { return s.Read().Applied() }

// Write applies one entry: a batch of one.
func (s *Store) Write(index uint64, fn func(*Write) error) error {
	b := s.Batch()
	defer b.Abort()
	err := b.Apply(index, fn)
	b.Commit()
	return err
}

// Read is a transaction that remembers which tables it read and, of a reader that will wait, which rows
// and ranges.
type Read struct {
	content *content
	txn     *memdb.Txn
	mask    uint64         // tables read, by number
	watch   memdb.WatchSet // nil: nobody will wait on single rows
	whole   uint64         // tables watched as a whole, by number
	gaps    []gap          // where a waiting reader found nothing
}

// manyWatches is how many rows and ranges one reader watches one by one; beyond it watches whole tables,
// which is less precise and cheaper.
const manyWatches = 4096

func (tx *Read) note(table int, ch <-chan struct{}) {
	if tx.watch == nil || tx.whole&(1<<table) != 0 {
		return
	}
	if len(tx.watch) >= manyWatches {
		tx.whole |= 1 << table
		ch = tx.tableChannel(table)
	}
	tx.watch.Add(ch)
}

// tableChannel is closed when the table changes.
func (tx *Read) tableChannel(number int) <-chan struct{} {
	ch, _, err := tx.txn.FirstWatch(tableIndexes.schema.Name, idIndex, keyOf(schema().tables[number].name()))
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	return ch
}

// Newest is the newest index of the tables read so far: the index of an answer made from them. It is at
// least 1, so that it can be waited on.
func (tx *Read) Newest() uint64 {
	newest := uint64(1)
	for n, t := range schema().tables {
		if tx.mask&(1<<n) != 0 {
			newest = max(newest, tableIndexOf(tx, t.name()))
		}
	}
	return newest
}

// channels are what to wait on: the rows and ranges of a watching reader, the tables of another, and
// always the end of the whole content.
func (tx *Read) channels() memdb.WatchSet {
	set := tx.watch
	if set == nil {
		set = memdb.NewWatchSet()
		for n := range schema().tables {
			if tx.mask&(1<<n) != 0 {
				set.Add(tx.tableChannel(n))
			}
		}
	}
	set.Add(tx.content.abandoned)
	return set
}

// Wait returns nil when anything that r has read has changed since, or the whole store was restored; or
// the error of ctx. A reader from Watching waits for the rows and ranges it looked at, another for the
// tables they are in.
func (s *Store) Wait(ctx context.Context, r *Read) error {
	set := r.channels()
	if len(r.gaps) > 0 {
		leave, wait := s.waitGaps(r, set)
		defer leave()
		if !wait {
			return nil
		}
	}
	return set.WatchCtx(ctx)
}

// Applied is the index of the last entry applied to the snapshot, whatever it changed: what has been worked
// out from the snapshot knows of every entry up to it.
func (tx *Read) Applied() uint64 { return tableIndexOf(tx, appliedMark) }

// AwaitIndex returns when the command at the index, or a later one, has been applied here.
func (s *Store) AwaitIndex(ctx context.Context, index uint64) error {
	for {
		tx := s.Watching()
		if at := tableIndexes.get(tx, appliedMark); at != nil && at.Newest >= index {
			return nil
		}
		if err := s.Wait(ctx, tx); err != nil {
			return err
		}
	}
}

// Write is a transaction that changes rows, for the log entry at Index.
type Write struct {
	*Read
	Index   uint64
	undo    []change
	touched uint64 // tables changed, by number
}

// change is what a row was and what it is now; nil where there is none.
type change struct {
	table    string
	old, now any
}

// apply makes a change of the table with the number and remembers how to take it back.
func (tx *Write) apply(number int, c change) {
	var err error
	if c.now != nil {
		err = tx.txn.Insert(c.table, c.now)
	} else {
		err = tx.txn.Delete(c.table, c.old)
	}
	if err != nil {
		panic(err) // the schema and this code disagree
	}
	tx.undo = append(tx.undo, c)
	tx.touched |= 1 << number
}

// rollback takes all changes back, newest first.
func (tx *Write) rollback() {
	for i := len(tx.undo) - 1; i >= 0; i-- {
		c, err := tx.undo[i], error(nil)
		if c.old == nil {
			err = tx.txn.Delete(c.table, c.now)
		} else {
			err = tx.txn.Insert(c.table, c.old)
		}
		if err != nil {
			panic(err) // what was done can be undone
		}
	}
}

// Batch applies many log entries in one transaction: readers see all of them or none. It holds the
// store's writer until Commit.
type Batch struct {
	store   *Store
	content *content
	txn     *memdb.Txn
	last    uint64
	touched map[int]uint64 // table number to the newest index that changed it
	changes []change
}

// Batch begins a batch. There is one at a time; a second waits.
func (s *Store) Batch() *Batch {
	c := s.now.Load()
	return &Batch{store: s, content: c, txn: c.db.Txn(true), touched: map[int]uint64{}}
}

// Apply runs one entry. If fn fails, the entry has changed nothing, the error is returned and the batch
// goes on.
func (b *Batch) Apply(index uint64, fn func(*Write) error) error {
	tx := &Write{Read: &Read{content: b.content, txn: b.txn}, Index: index}
	b.last = max(b.last, index)
	if err := fn(tx); err != nil {
		tx.rollback()
		return err
	}
	b.changes = append(b.changes, tx.undo...)
	for n := range schema().tables {
		if tx.touched&(1<<n) != 0 {
			b.touched[n] = index
		}
	}
	return nil
}

// Commit makes the batch visible and wakes who waits for what it changed.
func (b *Batch) Commit() {
	for n, index := range b.touched {
		b.mark(schema().tables[n].name(), index)
	}
	if b.last > 0 {
		b.mark(appliedMark, b.last)
	}
	b.txn.Commit()
	b.store.absences.fill(b.changes)
	b.changes = nil
}

// Abort gives the batch up; after Commit it does nothing.
func (b *Batch) Abort() { b.txn.Abort() }

func (b *Batch) mark(name string, index uint64) {
	if err := b.txn.Insert(tableIndexes.schema.Name, &tableIndex{Name: name, Newest: index}); err != nil {
		panic(err) // the schema and this code disagree
	}
}
