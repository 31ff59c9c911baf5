package mvcc

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-memdb"
)

// DB is a database. Any number of readers see consistent snapshots while one writer works. All of its methods
// are safe for concurrent use.
type DB struct {
	schema  *builtSchema
	now     atomic.Pointer[view]
	writer  sync.Mutex // held by the current batch
	spare   spare      // of the writer
	watches watches
}

// view is the database at one moment. It never changes: another view replaces it.
type view struct {
	schema  *builtSchema
	db      *memdb.MemDB
	rows    rowVector   // by the numbers of the slots in db
	tree    *keyIndexer // of the writer, as are the slots
	slots   *cellNumbers
	number  uint64     // counts the views of a database
	applied uint64     // index of the last entry applied
	marks   tableMarks // of the tables, by their numbers
}

// Open returns an empty database with the tables of the schema.
func Open(s *Schema) *DB {
	db := &DB{schema: s.build()}
	db.watches.at = map[watchPoint]map[*waiter]struct{}{}
	db.watches.feeds = feeds{}
	db.spare.overlay = newOverlay(len(db.schema.paths))
	db.now.Store(emptyView(db.schema))
	return db
}

func emptyView(s *builtSchema) *view {
	v := &view{
		schema: s,
		slots:  &cellNumbers{},
		marks:  newTableMarks(len(s.tables)),
	}
	v.db, v.tree = newTrees(s.paths)
	return v
}

// Read returns a consistent snapshot. It costs next to nothing and needs no end, but belongs to one
// goroutine.
func (db *DB) Read() *ReadTx {
	return db.now.Load().read()
}

func (v *view) read() *ReadTx {
	return &ReadTx{
		view:  v,
		txn:   v.db.Txn(false),
		rows:  v.rows,
		marks: &v.marks,
	}
}

// ReadWatched is Read for a caller that will Wait: it records the rows and ranges that it reads.
func (db *DB) ReadWatched() *ReadTx {
	tx := db.Read()
	tx.watched = true
	return tx
}

// Index returns the log index of the last entry applied, 0 before the first one.
func (db *DB) Index() uint64 {
	return db.now.Load().applied
}

// Write applies one entry as a separate batch.
func (db *DB) Write(index uint64, fn func(*WriteTx) error) error {
	b := db.Begin()
	defer b.Abort()
	err := b.Apply(index, fn)
	b.Commit()
	return err
}

// ReadTx is a snapshot. It records the tables that it reads and, if it comes from ReadWatched, the rows and
// ranges.
type ReadTx struct {
	view    *view
	txn     *memdb.Txn
	rows    rowVector   // of the same moment as txn
	marks   *tableMarks // of the tables in the trees of txn
	overlay *overlay    // of a writer
	draft   bool        // it is a Draft: an index without changes may be read in pages
	tables  tableSet    // that it read

	watched bool
	points  watchPoints // that it read, if watched
	whole   tableSet    // tables that it watches completely

	scratch Key // of the current look-up
	arg     Key
	args    [1]any
}

// Reader is a ReadTx, a WriteTx, which also sees its own changes, or a LoadTx.
type Reader interface{ reader() *ReadTx }

func (tx *ReadTx) reader() *ReadTx { return tx }

// Newest returns the newest log index of the tables read so far. It is the index of a response made from
// them. It is at least 1, so that a client can wait for the next one.
func (tx *ReadTx) Newest() uint64 {
	newest := uint64(1)
	tx.tables.each(func(table int) {
		newest = max(newest, tx.view.marks.of(table).newest)
	})
	return newest
}

// Applied returns the log index of the last entry applied to the snapshot, with or without changes.
func (tx *ReadTx) Applied() uint64 {
	return tx.view.applied
}

// Watched reports whether the transaction comes from ReadWatched.
func (tx *ReadTx) Watched() bool { return tx.watched }

// Wait returns nil when anything that tx has read has changed since, or when the database was restored. It
// returns the error of ctx when that ends first. A transaction from ReadWatched waits for the rows and ranges
// that it has read, another one for the tables.
func (db *DB) Wait(ctx context.Context, tx *ReadTx) error {
	w, changed := db.watches.join(tx)
	defer db.watches.leave(w)
	if changed {
		return nil
	}
	select {
	case <-w.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish makes v the current view and notifies the readers that wait for its changes. The caller holds the
// lock of the writer.
func (db *DB) publish(v *view, changed []pathKey, all bool) {
	v.number = db.now.Load().number + 1
	db.now.Store(v)
	db.watches.notify(v, changed, all)
}
