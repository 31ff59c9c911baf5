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

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// fakeLog is a log that records an entry when the test demands it. It answers an entry by its text, and
// rejects it in Error.
type fakeLog struct {
	mu      sync.Mutex
	entries [][]string
	split   func(entry []byte) []string // the parts of an entry
	pending []*fakeFuture
}

type fakeFuture struct {
	done  chan struct{}
	index uint64
	value any
	err   error
}

func (s *fakeFuture) Error() error {
	<-s.done
	return s.err
}
func (s *fakeFuture) Index() uint64 { return s.index }
func (s *fakeFuture) Response() any { return s.value }

func (p *fakeLog) send(entry []byte) raft.ApplyFuture {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.split(entry)
	p.entries = append(p.entries, all)
	s := &fakeFuture{
		done:  make(chan struct{}),
		index: uint64(len(p.entries)),
		value: all[0],
	}
	if len(all) > 1 {
		var answers fsm.Answers
		for _, one := range all {
			answers = append(answers, one)
		}
		s.value = answers
	}
	p.pending = append(p.pending, s)
	return s
}

// record ends the oldest entry in flight.
func (p *fakeLog) record(err error) {
	p.mu.Lock()
	s := p.pending[0]
	p.pending = p.pending[1:]
	p.mu.Unlock()
	s.err = err
	close(s.done)
}

func (p *fakeLog) recorded() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.entries)
}

// numbered makes an entry that is its number, and splits entries made of such.
func numbered(n int) []byte {
	e, err := fsm.NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{NodeID: fmt.Sprintf("%04d", n)})
	if err != nil {
		panic(err)
	}
	return e
}

// names applies an entry to an empty state, whose answers name the missing nodes.
func names(entry []byte) (out []string) {
	answer := fsm.New(state.New()).Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: 1,
		Data:  entry,
	})
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

func call(ctx context.Context, b *batcher, n int) *caller {
	c := &caller{}
	go func() {
		c.index, c.value, c.err = b.propose(ctx, numbered(n))
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

func TestBatcher_MergesWaitingProposalsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeLog{split: names}
		b := newBatcher(p.send)
		var callers []*caller
		for n := range 5 {
			callers = append(callers, call(t.Context(), b, n))
		}
		if got := p.recorded(); len(got) != 1 {
			t.Fatalf("first entry has %v, want the first proposal alone", got)
		}
		p.record(nil)
		synctest.Wait()
		callers = append(callers, call(t.Context(), b, 5))
		p.record(nil)
		synctest.Wait()
		p.record(nil)
		for n, index := range []uint64{1, 2, 2, 2, 2, 3} {
			callers[n].want(t, index, nameOf(n))
		}
		want := [][]string{{nameOf(0)}, {nameOf(1), nameOf(2), nameOf(3), nameOf(4)}, {nameOf(5)}}
		if got := p.recorded(); !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got entries %v", got)
		}
	})
}

func TestBatcher_FailsAllProposalsOfAnEntry(t *testing.T) {
	for err, kind := range map[error]structs.Kind{
		raft.ErrNotLeader: structs.KindUnavailable, raft.ErrRaftShutdown: structs.KindUnavailable,
		raft.ErrLeadershipLost: structs.KindTimeout, errors.New("the disk"): structs.KindTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &fakeLog{split: names}
			b := newBatcher(p.send)
			before := call(t.Context(), b, 0)
			one := call(t.Context(), b, 1)
			other := call(t.Context(), b, 2)
			p.record(nil)
			before.want(t, 1, nameOf(0))
			after := call(t.Context(), b, 3)
			p.record(err)
			one.wantKind(t, kind)
			other.wantKind(t, kind)
			p.record(nil)
			after.want(t, 3, nameOf(3))
		})
	}
}

// A proposal that leaves while it waits is not written. One that leaves later does not know its outcome. The
// first of a batch stays for the others.
func TestBatcher_LetsProposalsLeaveWhileTheyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeLog{split: names}
		b := newBatcher(p.send)
		ctxs, ends := make([]context.Context, 5), make([]context.CancelFunc, 5)
		callers := make([]*caller, 5)
		for n := range callers {
			ctxs[n], ends[n] = context.WithCancel(t.Context())
			callers[n] = call(ctxs[n], b, n)
		}
		ends[0]() // its entry is in flight
		ends[2]() // waits in the queue
		callers[2].wantKind(t, structs.KindUnavailable)
		if callers[0].done {
			t.Fatalf("first proposal returned early: %+v", *callers[0])
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
			t.Errorf("got entries %v", got)
		}
	})
}

// The previous batch may hang. Its entry is written, and its answer says so.
func TestBatcher_TheFirstWhoseContextEndsLearnsItsOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeLog{split: names}
		b := newBatcher(p.send)
		before := call(t.Context(), b, 0)
		ctx, end := context.WithCancel(t.Context())
		first := call(ctx, b, 1)
		other := call(t.Context(), b, 2)
		end()
		synctest.Wait()
		if first.done {
			t.Fatalf("first proposal returned before its outcome: %+v", *first)
		}
		p.record(nil)
		p.record(nil)
		before.want(t, 1, nameOf(0))
		first.want(t, 2, nameOf(1))
		other.want(t, 2, nameOf(2))
	})
}

func TestBatcher_BoundsTheBytesOfAnEntry(t *testing.T) {
	var all []*proposal
	for _, size := range []int{2 * fsm.BytesInBatch, 10, fsm.BytesInBatch - 10, 1} {
		all = append(all, &proposal{entry: make([]byte, size)})
	}
	for _, want := range []int{1, 2, 1} {
		n := fittingCount(all)
		if n != want {
			t.Errorf("%d proposals in an entry, want %d", n, want)
		}
		all = all[n:]
	}
}

func TestBatcher_GivesEachProposalItsOwnAnswer(t *testing.T) {
	p := &fakeLog{split: names}
	b := newBatcher(func(entry []byte) raft.ApplyFuture {
		f := p.send(entry)
		p.record(nil)
		return f
	})
	var wg sync.WaitGroup
	for who := range 32 {
		wg.Go(func() {
			for n := range 50 {
				want := nameOf(who*50 + n)
				if _, value, err := b.propose(t.Context(), numbered(who*50+n)); err != nil || value != want {
					t.Errorf("%v, %v, want %s", value, err, want)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(p.recorded()...)
	slices.Sort(all)
	if len(slices.Compact(all)) != 32*50 {
		t.Errorf("%d different proposals were written, want %d", len(all), 32*50)
	}
}

// TestPropose_OfASoleVoterSharesEntries makes proposals at the same time, each with an answer of its own.
func TestPropose_OfASoleVoterSharesEntries(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	const proposals = 256
	before := s.consensus.LastIndex()
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for n := range proposals {
		entry, want := numbered(n), nameOf(n)
		wg.Go(func() {
			<-begin
			_, answer, err := s.Propose(t.Context(), entry)
			if err != nil || fmt.Sprint(answer) != want {
				t.Errorf("got %v, %v, want %s", answer, err, want)
			}
		})
	}
	close(begin)
	wg.Wait()
	entries := s.consensus.LastIndex() - before
	if entries >= proposals/2 {
		t.Errorf("%d proposals made %d entries, want fewer than half", proposals, entries)
	}
}
