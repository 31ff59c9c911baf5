package mvcc

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// look is one way to read. It returns the answer as text.
type look struct {
	name string
	see  func(*ReadTx) string
}

func looks(t *rapid.T) look {
	id := rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "looks for")
	all := []look{
		{"one", func(tx *ReadTx) string { return fmt.Sprint(items.Get(tx, id)) }},
		{"the first of a job", func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.First(tx, "n", id)) }},
		{"whether a job has any", func(tx *ReadTx) string { return fmt.Sprint(itemsByGroup.Has(tx, "n", id)) }},
		{"a job's", func(tx *ReadTx) string { return found(itemsByGroup.Scan(tx, "n", id)) }},
		{"those by prefix", func(tx *ReadTx) string { return found(items.Prefix(tx, id[:1])) }},
		{"those on", func(tx *ReadTx) string {
			return found(items.Range(tx, KeyPrefix("a"), Page{From: []string{id}}))
		}},
		{"those back from", func(tx *ReadTx) string {
			return found(items.Range(tx, KeyPrefix("a"), Page{From: []string{id}, Reverse: true}))
		}},
		{"what is blocked", func(tx *ReadTx) string { return found(itemsByTag.Scan(tx, id)) }},
		{"all", func(tx *ReadTx) string { return found(items.Scan(tx)) }},
	}
	return rapid.SampledFrom(all).Draw(t, "look")
}

// TestWait_ReturnsWhenTheAnswerChanges before or after the begin of the wait.
func TestWait_ReturnsWhenTheAnswerChanges(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s, index := open(), uint64(0)
			write := func() {
				index++
				_ = s.Write(index, func(tx *WriteTx) error {
					for range rapid.IntRange(1, 2).Draw(rt, "changes") {
						e := &item{ID: name.Draw(rt, "id"), Space: "n", Group: name.Draw(rt, "job"), Text: fmt.Sprint(index),
							Status: rapid.SampledFrom([]string{blocked, done}).Draw(rt, "status"),
							Tags:   []string{name.Draw(rt, "on")}}
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
			l, early, late := looks(rt), s.ReadWatched(), s.ReadWatched()
			was := l.see(early)
			l.see(late)
			ctx, cancel := context.WithCancel(t.Context())
			woke := make(chan bool, 2)
			wait := func(tx *ReadTx) { woke <- s.Wait(ctx, tx) == nil }
			go wait(early)
			synctest.Wait()
			for range rapid.IntRange(0, 3).Draw(rt, "meanwhile") {
				write()
			}
			go wait(late)
			synctest.Wait()
			cancel()
			one, other := <-woke, <-woke
			if is := l.see(s.Read()); one != other || is != was && !one {
				rt.Errorf("%s: saw %q, now %q, and was woken: %v and %v", l.name, was, is, one, other)
			}
			if n := waiting(s); n != 0 {
				rt.Errorf("%d places are kept", n)
			}
		})
	})
}

// TestWait_ReturnsWhenItBeginsTooLate: old changes and large changes are not kept.
func TestWait_ReturnsWhenItBeginsTooLate(t *testing.T) {
	s := open()
	_ = s.Write(1, putThing("a"))
	slow, slower := s.ReadWatched(), s.ReadWatched()
	things.Get(slow, "a")
	things.Get(slower, "a")
	for n := range uint64(keptChanges) {
		_ = s.Write(n+2, putThing("b"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, slow); err == nil {
		t.Error("woken by a change of another row")
	}
	_ = s.Write(s.Index()+1, putThing("b"))
	if err := s.Wait(t.Context(), slower); err != nil {
		t.Error(err)
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
		t.Error(err)
	}
}
