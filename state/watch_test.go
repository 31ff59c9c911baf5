package state

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"berth/structs"
)

// look is one way to read, and what it sees.
type look struct {
	name string
	see  func(*Read) string
}

func looks(t *rapid.T) look {
	id := rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "looks for")
	all := []look{
		{"one", func(tx *Read) string { return fmt.Sprint(Eval(tx, id)) }},
		{"the first of a job", func(tx *Read) string { return fmt.Sprint(evalsByJob.first(tx, "n", id)) }},
		{"whether a job has any", func(tx *Read) string { return fmt.Sprint(evalsByJob.has(tx, "n", id)) }},
		{"a job's", func(tx *Read) string { return found(evalsByJob.all(tx, "n", id)) }},
		{"those by prefix", func(tx *Read) string { return found(evals.prefix(tx, id[:1])) }},
		{"those on", func(tx *Read) string { return found(evals.part(tx, beginning("a"), Start{Key: []string{id}})) }},
		{"those back from", func(tx *Read) string {
			return found(evals.part(tx, beginning("a"), Start{Key: []string{id}, Reverse: true}))
		}},
		{"what is blocked", func(tx *Read) string { return found(evalsByBlocked.all(tx, id)) }},
		{"all", func(tx *Read) string { return found(evals.all(tx)) }},
	}
	return rapid.SampledFrom(all).Draw(t, "look")
}

// TestWhoWaitsIsWokenWhenTheAnswerIsAnother: whether it waits already when that changes, or comes to wait later.
func TestWhoWaitsIsWokenWhenTheAnswerIsAnother(t *testing.T) {
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s, index := New(), uint64(0)
			write := func() {
				index++
				_ = s.Write(index, func(tx *Write) error {
					for range rapid.IntRange(1, 2).Draw(rt, "changes") {
						e := &structs.Evaluation{ID: name.Draw(rt, "id"), Namespace: "n", JobID: name.Draw(rt, "job"), StatusDescription: fmt.Sprint(index),
							Status: rapid.SampledFrom([]string{structs.EvalBlocked, structs.EvalComplete}).Draw(rt, "status"), BlockedOn: []string{name.Draw(rt, "on")}}
						if rapid.IntRange(0, 2).Draw(rt, "sort") == 0 {
							evals.delete(tx, e)
						} else {
							evals.put(tx, e)
						}
					}
					return nil
				})
			}
			for range rapid.IntRange(0, 5).Draw(rt, "before") {
				write()
			}
			l, early, late := looks(rt), s.Watching(), s.Watching()
			was := l.see(early)
			l.see(late)
			ctx, cancel := context.WithCancel(t.Context())
			woke := make(chan bool, 2)
			wait := func(tx *Read) { woke <- s.Wait(ctx, tx) == nil }
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
			if n := kept(s); n != 0 {
				rt.Errorf("%d places are kept", n)
			}
		})
	})
}

// TestWhoComesTooLateLooksAgain: what changed is not kept for ever, nor when it is very much.
func TestWhoComesTooLateLooksAgain(t *testing.T) {
	s := New()
	_ = s.Write(1, putNode("a"))
	slow, slower := s.Watching(), s.Watching()
	Node(slow, "a")
	Node(slower, "a")
	for n := range uint64(keptChanges) {
		_ = s.Write(n+2, putNode("b"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx, slow); err == nil {
		t.Error("woken by a change of another row")
	}
	_ = s.Write(s.Index()+1, putNode("b"))
	if err := s.Wait(t.Context(), slower); err != nil {
		t.Error(err)
	}
	many := s.Watching()
	Node(many, "a")
	_ = s.Write(s.Index()+1, func(tx *Write) error {
		for n := range mostChanges + 1 {
			nodes.put(tx, &structs.Node{ID: fmt.Sprint(n)})
		}
		return nil
	})
	if err := s.Wait(t.Context(), many); err != nil {
		t.Error(err)
	}
}
