package state

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func saved(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func putNode(id string) func(*Write) error {
	return func(tx *Write) error {
		nodes.put(tx, &structs.Node{ID: id})
		return nil
	}
}

func TestAFailedEntryChangesNothingButTheIndex(t *testing.T) {
	s := New()
	b := s.Batch()
	failed := errors.New("no")
	steps := []struct {
		fn   func(*Write) error
		want error
	}{
		{putNode("a"), nil},
		{func(tx *Write) error {
			nodes.put(tx, &structs.Node{ID: "a", Name: "changed"})
			nodes.put(tx, &structs.Node{ID: "b"})
			nodes.put(tx, &structs.Node{ID: "b", Name: "twice"})
			nodes.delete(tx, &structs.Node{ID: "a"})
			plugins.put(tx, &structs.CSIPluginRow{ID: "p"})
			return failed
		}, failed},
		{func(tx *Write) error {
			if Node(tx.Read, "a").Name != "" || Node(tx.Read, "b") != nil || Plugin(tx.Read, "p") != nil {
				t.Error("the failed entry left something behind")
			}
			return putNode("c")(tx)
		}, nil},
		{func(tx *Write) error { return failed }, failed},
	}
	for n, step := range steps {
		if err := b.Apply(uint64(n+1), step.fn); !errors.Is(err, step.want) {
			t.Errorf("entry %d: %v", n+1, err)
		}
	}
	if s.Index() != 0 || Node(s.Read(), "a") != nil {
		t.Error("visible before the commit")
	}
	b.Commit()
	tx := s.Read()
	for range Nodes(tx) {
	}
	if s.Index() != 4 || tx.Newest() != 3 {
		t.Errorf("store at %d, nodes at %d", s.Index(), tx.Newest())
	}
	tx = s.Read()
	Plugin(tx, "p")
	if tx.Newest() != 1 {
		t.Errorf("a table that nothing changed is at %d", tx.Newest())
	}
	if n := Node(tx, "c"); n.CreateIndex != 3 || n.ModifyIndex != 3 {
		t.Errorf("stamped %+v", n.Indexes)
	}
}

func TestBatchesOfAnySizeGiveTheSameBytes(t *testing.T) {
	one, many := New(), New()
	b := many.Batch()
	for n := range uint64(20) {
		fn := putNode(string(rune('a' + n%7)))
		if n%5 == 4 {
			fn = func(tx *Write) error { return errors.New("no") }
		}
		_ = one.Write(n+1, fn)
		_ = b.Apply(n+1, fn)
	}
	b.Commit()
	if !bytes.Equal(saved(t, one), saved(t, many)) {
		t.Error("they differ")
	}
}

func TestASnapshotDoesNotMove(t *testing.T) {
	s := New()
	_ = s.Write(1, putNode("a"))
	tx := s.Read()
	_ = s.Write(2, putNode("b"))
	if Node(tx, "b") != nil || tx.Applied() != 1 || s.Index() != 2 {
		t.Error("it moved")
	}
}

// waitFor reports how often wait returned for a change and how often it was called, as tick drives it.
func TestWaitWakesForWhatWasReadOnly(t *testing.T) {
	for _, c := range []struct {
		name    string
		read    func(*Read)
		writes  func(*Write) error
		precise bool // a reader from Watching wakes
		coarse  bool // one from Read does
	}{
		{"the row", func(tx *Read) { Node(tx, "aa") }, putNode("aa"), true, true},
		{"another row", func(tx *Read) { Node(tx, "aa") }, putNode("zz"), false, true},
		{"another table", func(tx *Read) { Plugin(tx, "aa") }, putNode("aa"), false, false},
		{"a row that is new in a range", func(tx *Read) {
			for range NodesByPrefix(tx, "a") {
			}
		}, putNode("ax"), true, true},
		{"a row beside a range", func(tx *Read) {
			for range NodesByPrefix(tx, "a") {
			}
		}, putNode("zx"), false, true},
		{"a row that was not there", func(tx *Read) { Node(tx, "new") }, putNode("new"), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New()
				for _, id := range []string{"aa", "ab", "zz"} {
					_ = s.Write(1, putNode(id))
				}
				if got := wakes1(s, s.Watching(), c.read, c.writes); got != c.precise {
					t.Errorf("a watching reader woke: %v", got)
				}
				if got := wakes1(s, s.Read(), c.read, c.writes); got != c.coarse {
					t.Errorf("another reader woke: %v", got)
				}
			})
		})
	}
}

func wakes1(s *Store, tx *Read, read func(*Read), writes func(*Write) error) bool {
	ctx, cancel := context.WithCancel(context.Background())
	read(tx)
	woke := make(chan error, 1)
	go func() { woke <- s.Wait(ctx, tx) }()
	synctest.Wait()
	_ = s.Write(s.Index()+1, writes)
	synctest.Wait()
	cancel()
	return <-woke == nil
}

func TestManyWatchesFallBackToTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		b := s.Batch()
		ids := make([]string, manyWatches+100)
		for n := range ids {
			ids[n] = structs.DeriveID(1, ordered(uint64(n)))
			_ = b.Apply(1, putNode(ids[n]))
		}
		b.Commit()
		tx := s.Watching()
		for _, id := range ids {
			Node(tx, id)
		}
		if len(tx.places.at) > manyWatches+2 {
			t.Errorf("%d places", len(tx.places.at))
		}
		if !wakes1(s, tx, func(*Read) {}, putNode(ids[len(ids)-1])) {
			t.Error("the last row's change was missed")
		}
	})
}
