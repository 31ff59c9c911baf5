package state

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// Store holds the rows. Any number of readers see consistent snapshots while one writer works; all of
// its methods may be called from many goroutines at once.
type Store struct {
	now     atomic.Pointer[view]
	writer  sync.Mutex // held by the one batch there is
	spare   spare      // its
	watches watches
}

// view is the store at one moment: it never changes, the next takes its place.
type view struct {
	db      *memdb.MemDB
	rows    rows       // by the slots that the tree has
	tree    *writerKey // the writer's, as are the next
	pool    *pool
	numbers *numbers
	finder  finder
	number  uint64 // counts the views of a store
	applied uint64 // index of the last entry applied
	newest  [mostTables]uint64
}

// New returns an empty store.
func New() *Store {
	s := &Store{}
	s.now.Store(emptyView())
	return s
}

func emptyView() *view {
	schema() // from now on the keys of each index begin with its own byte
	v := &view{pool: newPool(), numbers: &numbers{}, finder: newFinder()}
	v.db, v.tree = newTree()
	return v
}

// Read returns a consistent snapshot. It costs next to nothing and needs no Close, but belongs to one
// goroutine.
func (s *Store) Read() *Read { return s.now.Load().read() }

func (v *view) read() *Read { return &Read{view: v, txn: v.db.Txn(false), rows: v.rows} }

// Watching is Read for one who will Wait: it remembers the very rows and ranges it looked at.
func (s *Store) Watching() *Read {
	tx := s.Read()
	tx.watching = true
	return tx
}

// Index is the Raft index of the last entry applied, 0 before the first.
func (s *Store) Index() uint64 { return s.now.Load().applied }

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
	view    *view
	txn     *memdb.Txn
	rows    rows     // of the same moment as txn
	pending *pending // a writer's, as are the next two
	memo    *memo
	finder  *finder
	mask    uint64 // tables read, by number

	watching bool
	places   places // of a reader that will wait
	whole    uint64 // tables it watches as a whole, by number

	scratch key // of the key that is looked up now
	arg     key
	args    [1]any
}

// Newest is the newest index of the tables read so far: the index of an answer made from them. It is at
// least 1, so that it can be waited on.
func (tx *Read) Newest() uint64 {
	newest := uint64(1)
	for n := range schema().tables {
		if tx.mask&(1<<n) != 0 {
			newest = max(newest, tx.view.newest[n])
		}
	}
	return newest
}

// Applied is the index of the last entry applied to the snapshot, whatever it changed: what has been worked
// out from the snapshot knows of every entry up to it.
func (tx *Read) Applied() uint64 { return tx.view.applied }

// Wait returns nil when anything that r has read has changed since, or the whole store was restored; or
// the error of ctx. A reader from Watching waits for the rows and ranges it looked at, another for the
// tables they are in.
func (s *Store) Wait(ctx context.Context, r *Read) error {
	w, changed := s.watches.join(r)
	defer s.watches.leave(w)
	if changed {
		return nil
	}
	return w.wait(ctx)
}

// become makes v what everybody reads, and wakes who waits for what has changed with it. The writer's lock is
// held.
func (s *Store) become(v *view, changed []key, all bool) {
	if all {
		s.spare.memo = memo{}
	}
	v.number = s.now.Load().number + 1
	s.now.Store(v)
	s.watches.tell(v, changed, all)
}
