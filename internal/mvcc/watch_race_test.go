package mvcc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watcher is a reader that reads, sends its answer and waits, in a loop.
type watcher struct {
	read    func(*ReadTx) string
	answers chan string
	reads   atomic.Int64
	last    string // the last answer that the writer has received
}

func (l *watcher) run(ctx context.Context, s *DB) {
	for {
		tx := s.ReadWatched()
		l.reads.Add(1)
		select {
		case l.answers <- l.read(tx):
		case <-ctx.Done():
			return
		}
		if s.Wait(ctx, tx) != nil {
			return
		}
	}
}

// await receives answers until one is the wanted one.
func (l *watcher) await(ctx context.Context, want string) error {
	for l.last != want {
		select {
		case l.last = <-l.answers:
		case <-ctx.Done():
			return fmt.Errorf("got %q last, never %q", l.last, want)
		}
	}
	return nil
}

// watchersOf returns readers of the rows of one writer, one for each way to read.
func watchersOf(writer string) (ls []*watcher) {
	for _, read := range []func(*ReadTx) string{
		func(tx *ReadTx) string { return fmt.Sprint(items.Get(tx, writer+"1")) },
		func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.First(tx, writer, "j2")) },
		func(tx *ReadTx) string { return rowTexts(itemsByGroup.Scan(tx, writer, "j1")) },
		func(tx *ReadTx) string { return rowTexts(items.Prefix(tx, writer)) },
		func(tx *ReadTx) string {
			return rowTexts(items.Range(tx, KeyPrefix(writer), Page{From: []string{writer + "2"}}))
		},
		func(tx *ReadTx) string { return rowTexts(itemsByTag.Scan(tx, writer+"on1")) },
		func(tx *ReadTx) string {
			return fmt.Sprint(itemsByTag.Has(tx, writer+"on2"), items.Get(tx, writer+"none"))
		},
	} {
		ls = append(ls, &watcher{read: read, answers: make(chan string)})
	}
	return ls
}

// writeRound changes rows of the writer in one batch. Entries fail at random.
func writeRound(s *DB, index *atomic.Uint64, r *rand.Rand, writer string) {
	b := s.Begin()
	defer b.Abort()
	b.most = []int{1, 3, maxOverlay}[r.IntN(3)]
	for range 1 + r.IntN(3) {
		at := index.Add(1)
		fails := r.IntN(3) == 0
		_ = b.Apply(at, func(tx *WriteTx) error {
			for range 1 + r.IntN(3) {
				e := &item{
					ID:     fmt.Sprint(writer, r.IntN(4)),
					Space:  writer,
					Group:  fmt.Sprint("j", r.IntN(3)),
					Status: []string{blocked, pending}[r.IntN(2)],
					Text:   fmt.Sprint(at),
					Tags:   []string{fmt.Sprint(writer, "on", r.IntN(3))},
				}
				if r.IntN(3) == 0 {
					items.Delete(tx, e)
				} else {
					items.Put(tx, e)
				}
			}
			if fails {
				return errors.New("no")
			}
			return nil
		})
	}
	b.Commit()
}

// TestWait_NoticesEveryChange: Wait returns before the writer makes its next change, while other writers
// change other rows. No reader wakes for the changes of another writer.
func TestWait_NoticesEveryChange(t *testing.T) {
	const writers, rounds = 4, 200 // fewer views than are kept: no reader begins too late
	s := openDB()
	index := &atomic.Uint64{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var working, watching sync.WaitGroup
	end, stop := context.WithCancel(ctx)
	defer stop()
	for n := range writers {
		writer := fmt.Sprint("w", n, "-")
		r := rand.New(rand.NewPCG(uint64(n), 3))
		ls := watchersOf(writer)
		for _, l := range ls {
			watching.Go(func() { l.run(end, s) })
		}
		working.Go(func() {
			for i := range rounds {
				writeRound(s, index, r, writer)
				tx := s.Read()
				for _, l := range ls {
					if err := l.await(ctx, l.read(tx)); err != nil {
						t.Errorf("round %d of %s: %v", i, writer, err)
						return
					}
				}
			}
			for i, l := range ls {
				// It reads once at first and once for each round. It may have read once more than it has sent.
				if n := l.reads.Load(); n > rounds+2 {
					t.Errorf("reader %d of %s read %d times in %d rounds", i, writer, n, rounds)
				}
			}
		})
	}
	working.Wait()
	stop()
	watching.Wait()
	if n := watchedPoints(s); n != 0 {
		t.Errorf("%d watch points are left", n)
	}
}

// TestWait_NoticesARestore: the restore is between the read and the wait.
func TestWait_NoticesARestore(t *testing.T) {
	s := openDB()
	before := snapshotFile(t, s)
	for _, tx := range []*ReadTx{s.ReadWatched(), s.Read()} {
		things.Get(tx, "a")
		if err := s.Load(bytes.NewReader(before)); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), tx); err != nil {
			t.Errorf("Wait after a restore: got %v, want nil", err)
		}
	}
}

// TestWatches_KeepABoundedNumberOfChanges: the bound counts the keys of all views. Only a reader of a view
// that is not kept reads again without need.
func TestWatches_KeepABoundedNumberOfChanges(t *testing.T) {
	s := openDB()
	index := uint64(0)
	write := func(rows int) {
		index++
		_ = s.Write(index, func(tx *WriteTx) error {
			for n := range rows {
				things.Put(tx, &thing{ID: fmt.Sprint("n", n), Name: fmt.Sprint(index)})
			}
			return nil
		})
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	early := s.ReadWatched()
	things.Get(early, "a")
	var late *ReadTx
	for n := range 3 * keptKeys / 1000 {
		if n == 3*keptKeys/1000-10 {
			late = s.ReadWatched()
			things.Get(late, "a")
		}
		write(1000)
		keys := 0
		for _, c := range s.watches.last {
			keys += len(c.keys)
		}
		if keys != s.watches.keys || keys > keptKeys {
			t.Fatalf("%d keys are kept, %d are counted, want equal numbers up to %d", keys, s.watches.keys, keptKeys)
		}
	}
	if s.watches.notified-s.watches.forgot < keptKeys/1000-1 {
		t.Errorf("views %d to %d are kept, want more", s.watches.forgot, s.watches.notified)
	}
	if err := s.Wait(done, early); err != nil {
		t.Error("a reader of a view that is not kept does not read again")
	}
	if err := s.Wait(done, late); err == nil {
		t.Error("a reader reads again although nothing has changed")
	}
	write(maxChangedKeys + 1)
	if err := s.Wait(done, late); err != nil || s.watches.keys > keptKeys {
		t.Errorf("after a large change: got %v and %d kept keys, want nil and at most %d",
			err, s.watches.keys, keptKeys)
	}
}

// TestWait_MissesNoInsert: a row is put while readers begin to wait for it.
func TestWait_MissesNoInsert(t *testing.T) {
	const rows = 2000
	db := openDB()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	awaitRow := func(id string) {
		for {
			tx := db.ReadWatched()
			if things.Get(tx, id) != nil {
				return
			}
			if err := db.Wait(ctx, tx); err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
		}
	}
	for i := range rows {
		id := fmt.Sprintf("n%04d", i)
		for range 2 {
			wg.Go(func() { awaitRow(id) })
		}
	}
	for i := range rows {
		_ = db.Write(uint64(i+1), putThing(fmt.Sprintf("n%04d", i)))
	}
	wg.Wait()
	if n := watchedPoints(db); n != 0 {
		t.Errorf("%d watch points are left", n)
	}
}
