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

// lookout is a reader that reads, sends its answer and waits, in a loop.
type lookout struct {
	see   func(*ReadTx) string
	saw   chan string
	looks atomic.Int64
	told  string // the last answer that the writer has received
}

func (l *lookout) run(ctx context.Context, s *DB) {
	for {
		tx := s.ReadWatched()
		l.looks.Add(1)
		select {
		case l.saw <- l.see(tx):
		case <-ctx.Done():
			return
		}
		if s.Wait(ctx, tx) != nil {
			return
		}
	}
}

// until receives answers until one is the wanted one.
func (l *lookout) until(ctx context.Context, want string) error {
	for l.told != want {
		select {
		case l.told = <-l.saw:
		case <-ctx.Done():
			return fmt.Errorf("a reader saw %q last and never %q", l.told, want)
		}
	}
	return nil
}

// lookoutsOf returns readers of the rows of one writer, one for each way to read.
func lookoutsOf(writer string) (ls []*lookout) {
	for _, see := range []func(*ReadTx) string{
		func(tx *ReadTx) string { return fmt.Sprint(items.Get(tx, writer+"1")) },
		func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.First(tx, writer, "j2")) },
		func(tx *ReadTx) string { return found(itemsByGroup.Scan(tx, writer, "j1")) },
		func(tx *ReadTx) string { return found(items.Prefix(tx, writer)) },
		func(tx *ReadTx) string {
			return found(items.Range(tx, KeyPrefix(writer), Page{From: []string{writer + "2"}}))
		},
		func(tx *ReadTx) string { return found(itemsByTag.Scan(tx, writer+"on1")) },
		func(tx *ReadTx) string {
			return fmt.Sprint(itemsByTag.Has(tx, writer+"on2"), items.Get(tx, writer+"none"))
		},
	} {
		ls = append(ls, &lookout{see: see, saw: make(chan string)})
	}
	return ls
}

// round changes rows of the writer in one batch. Entries fail at random.
func round(s *DB, index *atomic.Uint64, r *rand.Rand, writer string) {
	b := s.Begin()
	defer b.Abort()
	b.most = []int{1, 3, maxOverlay}[r.IntN(3)]
	for range 1 + r.IntN(3) {
		at, fails := index.Add(1), r.IntN(3) == 0
		_ = b.Apply(at, func(tx *WriteTx) error {
			for range 1 + r.IntN(3) {
				e := &item{ID: fmt.Sprint(writer, r.IntN(4)), Space: writer, Group: fmt.Sprint("j", r.IntN(3)),
					Status: []string{blocked, pending}[r.IntN(2)], Text: fmt.Sprint(at),
					Tags: []string{fmt.Sprint(writer, "on", r.IntN(3))}}
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

// TestWait_NoticesEveryChange before the writer makes its next change, while other writers change other rows.
// No reader wakes for the changes of another writer.
func TestWait_NoticesEveryChange(t *testing.T) {
	const writers, rounds = 4, 200 // fewer views than are kept: no reader begins too late
	s, index := open(), &atomic.Uint64{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var working, looking sync.WaitGroup
	end, stop := context.WithCancel(ctx)
	defer stop()
	for n := range writers {
		writer, r := fmt.Sprint("w", n, "-"), rand.New(rand.NewPCG(uint64(n), 3))
		ls := lookoutsOf(writer)
		for _, l := range ls {
			looking.Go(func() { l.run(end, s) })
		}
		working.Go(func() {
			for i := range rounds {
				round(s, index, r, writer)
				tx := s.Read()
				for _, l := range ls {
					if err := l.until(ctx, l.see(tx)); err != nil {
						t.Errorf("round %d of %s: %v", i, writer, err)
						return
					}
				}
			}
			for i, l := range ls {
				// It reads once at first and once for each round. It may have read once more than it has sent.
				if n := l.looks.Load(); n > rounds+2 {
					t.Errorf("reader %d of %s looked %d times in %d rounds", i, writer, n, rounds)
				}
			}
		})
	}
	working.Wait()
	stop()
	looking.Wait()
	if n := waiting(s); n != 0 {
		t.Errorf("%d places are kept", n)
	}
}

// TestWait_NoticesARestore between the read and the wait.
func TestWait_NoticesARestore(t *testing.T) {
	s := open()
	before := saved(t, s)
	for _, tx := range []*ReadTx{s.ReadWatched(), s.Read()} {
		things.Get(tx, "a")
		if err := s.Load(bytes.NewReader(before)); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(t.Context(), tx); err != nil {
			t.Error(err)
		}
	}
}

// TestWatches_KeepABoundedNumberOfChanges, counted in keys of all views. Only a reader of a view that is not
// kept reads again in vain.
func TestWatches_KeepABoundedNumberOfChanges(t *testing.T) {
	s, index := open(), uint64(0)
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
			t.Fatalf("%d keys are kept, and %d counted", keys, s.watches.keys)
		}
	}
	if s.watches.notified-s.watches.forgot < keptKeys/1000-1 {
		t.Errorf("only views %d to %d are kept", s.watches.forgot, s.watches.notified)
	}
	if err := s.Wait(done, early); err != nil {
		t.Error("who came much too late does not look again")
	}
	if err := s.Wait(done, late); err == nil {
		t.Error("who need not look again does")
	}
	write(maxChangedKeys + 1)
	if err := s.Wait(done, late); err != nil || s.watches.keys > keptKeys {
		t.Errorf("a change of very much: %v, %d keys", err, s.watches.keys)
	}
}

// TestWait_MissesNoInsert of a row that is put while readers begin to wait for it.
func TestWait_MissesNoInsert(t *testing.T) {
	const rows = 2000
	db := open()
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
	if n := waiting(db); n != 0 {
		t.Errorf("%d places are kept", n)
	}
}
