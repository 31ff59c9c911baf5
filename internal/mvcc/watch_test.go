package mvcc

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// query is one way to read. It returns the answer as text.
type query struct {
	name string
	read func(*ReadTx) string
}

func drawQuery(t *rapid.T) query {
	id := rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "query for")
	all := []query{
		{"a row", func(tx *ReadTx) string { return fmt.Sprint(items.Get(tx, id)) }},
		{"the first of a group", func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.First(tx, "n", id)) }},
		{"whether a group has any", func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.Has(tx, "n", id)) }},
		{"a list", func(tx *ReadTx) string { return rowTexts(itemsByList.Scan(tx, pending, id)) }},
		{"a group", func(tx *ReadTx) string { return rowTexts(itemsByGroup.Scan(tx, "n", id)) }},
		{"a prefix", func(tx *ReadTx) string { return rowTexts(items.Prefix(tx, id[:1])) }},
		{"a page", func(tx *ReadTx) string {
			return rowTexts(items.Range(tx, KeyPrefix("a"), Page{From: []string{id}}))
		}},
		{"a page in reverse", func(tx *ReadTx) string {
			return rowTexts(items.Range(tx, KeyPrefix("a"), Page{From: []string{id}, Reverse: true}))
		}},
		{"a tag", func(tx *ReadTx) string { return rowTexts(itemsByTag.Scan(tx, id)) }},
		{"all", func(tx *ReadTx) string { return rowTexts(items.Scan(tx)) }},
	}
	return rapid.SampledFrom(all).Draw(t, "query")
}

// TestWait_ReturnsWhenTheAnswerChanges: the change is before or after the start of the wait.
func TestWait_ReturnsWhenTheAnswerChanges(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := openDB()
			index := uint64(0)
			write := func() {
				index++
				_ = s.Write(index, func(tx *WriteTx) error {
					for range rapid.IntRange(1, 2).Draw(rt, "changes") {
						e := &item{
							ID:     name.Draw(rt, "id"),
							Space:  "n",
							Group:  name.Draw(rt, "group"),
							Text:   fmt.Sprint(index),
							Status: rapid.SampledFrom([]string{blocked, done}).Draw(rt, "status"),
							Tags:   []string{name.Draw(rt, "tag")},
						}
						if rapid.IntRange(0, 2).Draw(rt, "sort") == 0 {
							items.Delete(tx, e)
						} else {
							items.Put(tx, e)
						}
					}
					return nil
				})
			}
			for range rapid.IntRange(0, 5).Draw(rt, "before") {
				write()
			}
			q := drawQuery(rt)
			early := s.ReadWatched()
			late := s.ReadWatched()
			before := q.read(early)
			q.read(late)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan bool, 2)
			wait := func(tx *ReadTx) { ended <- s.Wait(ctx, tx) == nil }
			go wait(early)
			synctest.Wait()
			for range rapid.IntRange(0, 3).Draw(rt, "meanwhile") {
				write()
			}
			go wait(late)
			synctest.Wait()
			cancel()
			one, other := <-ended, <-ended
			if now := q.read(s.Read()); one != other || now != before && !one {
				rt.Errorf("%s: read %q, now %q; Wait returned nil: %v and %v", q.name, before, now, one, other)
			}
			if n := watchedPoints(s); n != 0 {
				rt.Errorf("%d watch points are left", n)
			}
		})
	})
}

// TestWait_ReturnsWhenItBeginsTooLate: the database does not keep old changes and large changes.
func TestWait_ReturnsWhenItBeginsTooLate(t *testing.T) {
	s := openDB()
	_ = s.Write(1, putThing("a"))
	slow := s.ReadWatched()
	slower := s.ReadWatched()
	things.Get(slow, "a")
	things.Get(slower, "a")
	for n := range uint64(keptChanges) {
		_ = s.Write(n+2, putThing("b"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, slow); err == nil {
		t.Error("Wait returns for a change of another row")
	}
	_ = s.Write(s.Index()+1, putThing("b"))
	if err := s.Wait(t.Context(), slower); err != nil {
		t.Errorf("Wait for a view whose changes are dropped: got %v, want nil", err)
	}
	many := s.ReadWatched()
	things.Get(many, "a")
	_ = s.Write(s.Index()+1, func(tx *WriteTx) error {
		for n := range maxChangedKeys + 1 {
			things.Put(tx, &thing{ID: fmt.Sprint(n)})
		}
		return nil
	})
	if err := s.Wait(t.Context(), many); err != nil {
		t.Errorf("Wait after a large change: got %v, want nil", err)
	}
}
