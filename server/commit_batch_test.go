package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// paper is a log on which an entry is recorded when the test says so. It answers an entry by its text, and
// refuses in Error.
type paper struct {
	mu      sync.Mutex
	entries [][]string
	apart   func(entry []byte) []string // what is in an entry
	under   []*sheet
}

type sheet struct {
	done  chan struct{}
	index uint64
	value any
	err   error
}

func (s *sheet) Error() error  { <-s.done; return s.err }
func (s *sheet) Index() uint64 { return s.index }
func (s *sheet) Response() any { return s.value }

func (p *paper) send(entry []byte) raft.ApplyFuture {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.apart(entry)
	p.entries = append(p.entries, all)
	s := &sheet{done: make(chan struct{}), index: uint64(len(p.entries)), value: all[0]}
	if len(all) > 1 {
		var answers fsm.Answers
		for _, one := range all {
			answers = append(answers, one)
		}
		s.value = answers
	}
	p.under = append(p.under, s)
	return s
}

// record ends the entry that has been under way for longest.
func (p *paper) record(err error) {
	p.mu.Lock()
	s := p.under[0]
	p.under = p.under[1:]
	p.mu.Unlock()
	s.err = err
	close(s.done)
}

func (p *paper) recorded() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.entries)
}

// numbered makes an entry that is its number, and takes apart what was made of such.
func numbered(n int) []byte {
	e, err := fsm.NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{NodeID: fmt.Sprintf("%04d", n)})
	if err != nil {
		panic(err)
	}
	return e
}

// names applies an entry to an empty state, whose answers name the nodes that are not there.
func names(entry []byte) (out []string) {
	answer := fsm.New(state.New()).Apply(&raft.Log{Type: raft.LogCommand, Index: 1, Data: entry})
	answers, many := answer.(fsm.Answers)
	if !many {
		answers = fsm.Answers{answer}
	}
	for _, a := range answers {
		out = append(out, fmt.Sprint(a))
	}
	return out
}

func nameOf(n int) string { return names(numbered(n))[0] }

// caller is one that proposes in the background.
type caller struct {
	value any
	index uint64
	err   error
	done  bool
}

func call(ctx context.Context, g *group, n int) *caller {
	c := &caller{}
	go func() {
		c.index, c.value, c.err = g.propose(ctx, numbered(n))
		c.done = true
	}()
	synctest.Wait()
	return c
}

func (c *caller) want(t *testing.T, index uint64, value any) {
	t.Helper()
	synctest.Wait()
	if !c.done || c.err != nil || c.index != index || c.value != value {
		t.Errorf("%+v, want %v at %d", *c, value, index)
	}
}

func (c *caller) wantKind(t *testing.T, kind structs.Kind) {
	t.Helper()
	synctest.Wait()
	if !c.done || structs.KindOf(c.err) != kind {
		t.Errorf("%+v, want %s", *c, kind)
	}
}

func TestWhatWaitsGoesTogetherAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{apart: names}
		g := &group{send: p.send}
		var callers []*caller
		for n := range 5 {
			callers = append(callers, call(t.Context(), g, n))
		}
		if got := p.recorded(); len(got) != 1 {
			t.Fatalf("the first went with %v", got)
		}
		p.record(nil)
		synctest.Wait()
		callers = append(callers, call(t.Context(), g, 5))
		p.record(nil)
		synctest.Wait()
		p.record(nil)
		for n, index := range []uint64{1, 2, 2, 2, 2, 3} {
			callers[n].want(t, index, nameOf(n))
		}
		want := [][]string{{nameOf(0)}, {nameOf(1), nameOf(2), nameOf(3), nameOf(4)}, {nameOf(5)}}
		if got := p.recorded(); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("recorded were %v", got)
		}
		if g.rounds != 0 || len(g.waiting) != 0 {
			t.Errorf("left are %d rounds and %d who wait", g.rounds, len(g.waiting))
		}
	})
}

func TestAllOfARoundLearnWhatBecameOfIt(t *testing.T) {
	for err, kind := range map[error]structs.Kind{
		raft.ErrNotLeader: structs.KindUnavailable, raft.ErrRaftShutdown: structs.KindUnavailable,
		raft.ErrLeadershipLost: structs.KindTimeout, errors.New("the disk"): structs.KindTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &paper{apart: names}
			g := &group{send: p.send}
			before, one, other := call(t.Context(), g, 0), call(t.Context(), g, 1), call(t.Context(), g, 2)
			p.record(nil)
			before.want(t, 1, nameOf(0))
			after := call(t.Context(), g, 3)
			p.record(err)
			one.wantKind(t, kind)
			other.wantKind(t, kind)
			p.record(nil)
			after.want(t, 3, nameOf(3))
		})
	}
}

// TestWhoLeaves: from the line without a trace, from a round without knowing what becomes of it; and who leads a round
// stays for the others.
func TestWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{apart: names}
		g := &group{send: p.send}
		ctxs, ends := make([]context.Context, 5), make([]context.CancelFunc, 5)
		callers := make([]*caller, 5)
		for n := range callers {
			ctxs[n], ends[n] = context.WithCancel(t.Context())
			callers[n] = call(ctxs[n], g, n)
		}
		ends[0]() // its entry is under way
		ends[2]() // waits in line
		callers[2].wantKind(t, structs.KindUnavailable)
		if callers[0].done {
			t.Fatalf("the first did not wait: %+v", *callers[0])
		}
		p.record(nil)
		callers[0].want(t, 1, nameOf(0))
		ends[1]() // leads 1, 3 and 4
		ends[3]()
		callers[3].wantKind(t, structs.KindTimeout)
		p.record(nil)
		callers[1].want(t, 2, nameOf(1))
		callers[4].want(t, 2, nameOf(4))
		if got := p.recorded(); !slices.Equal(got[1], []string{nameOf(1), nameOf(3), nameOf(4)}) {
			t.Errorf("recorded were %v", got)
		}
	})
}

func TestARoundIsBounded(t *testing.T) {
	g := &group{}
	wait := func(sizes ...int) {
		for _, size := range sizes {
			g.waiting = append(g.waiting, &proposal{entry: make([]byte, size)})
		}
	}
	for range fsm.MostInBatch + 3 {
		wait(1)
	}
	if n := len(g.take()); n != fsm.MostInBatch {
		t.Errorf("%d in a round", n)
	}
	if n := len(g.take()); n != 3 {
		t.Errorf("%d in the next", n)
	}
	wait(2*fsm.BytesInBatch, 10, fsm.BytesInBatch-10, 1)
	for _, want := range []int{1, 2, 1, 0} {
		if n := len(g.take()); n != want {
			t.Errorf("%d in a round, want %d", n, want)
		}
	}
}

// TestManyGetTheirOwnAnswers: a log that is quick, and callers who come as they please.
func TestManyGetTheirOwnAnswers(t *testing.T) {
	p := &paper{apart: names}
	g := &group{send: func(entry []byte) raft.ApplyFuture {
		f := p.send(entry)
		p.record(nil)
		return f
	}}
	var wg sync.WaitGroup
	for who := range 32 {
		wg.Go(func() {
			for n := range 50 {
				want := nameOf(who*50 + n)
				if _, value, err := g.propose(t.Context(), numbered(who*50+n)); err != nil || value != want {
					t.Errorf("%v, %v, want %s", value, err, want)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(p.recorded()...)
	slices.Sort(all)
	if len(slices.Compact(all)) != 32*50 {
		t.Errorf("%d of %d were recorded, each once", len(all), 32*50)
	}
}

// TestAnOlderServerIsSpared: nothing is packed while one server would not understand it.
func TestAnOlderServerIsSpared(t *testing.T) {
	older := peer{name: "older", status: serf.StatusAlive}
	for want, peers := range map[string][]peer{
		"true":  {{packs: true}, {packs: true, status: serf.StatusFailed}, {status: serf.StatusLeft}},
		"false": {{packs: true}, older},
	} {
		if got := fmt.Sprint(allPack(peers)); got != want {
			t.Errorf("%v: %s", peers, got)
		}
	}
	older.status = serf.StatusFailed // and may come back
	if allPack([]peer{older}) {
		t.Error("one that failed is forgotten")
	}
}
