package server

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/structs"
)

// roundsUnderWay is how many entries of the group may be under way at once. With one, what comes meanwhile
// gathers for as long as the disks and the network take anyway.
const roundsUnderWay = 1

// group puts proposals that wait into few entries of the log. Its laws:
//
//   - Who comes while nothing of the group is under way goes at once, as an entry of its own.
//   - Who comes meanwhile waits and goes with all others that wait, in the order in which they came, as soon as
//     one is through.
//   - Each gets its own answer; the fate of an entry is that of all who are in it.
//   - It starts no goroutine: the first of an entry waits for it, whatever becomes of its own context, and
//     sends the next one off.
type group struct {
	send func(entry []byte) raft.ApplyFuture

	mu      sync.Mutex
	rounds  int         // under way
	waiting []*proposal // for the next
}

// proposal is one entry of a round.
type proposal struct {
	entry []byte
	told  chan struct{} // closed when it is answered, or when it is to lead
	lead  *round
	answer
}

type answer struct {
	index uint64
	value any
	err   error
}

// round is an entry of the log that is under way.
type round struct {
	all    []*proposal
	future raft.ApplyFuture
}

// propose has an entry applied. Who leaves while it waits has not written anything; after a timeout it may be
// written yet.
func (g *group) propose(ctx context.Context, entry []byte) (uint64, any, error) {
	p := &proposal{entry: entry, told: make(chan struct{})}
	if g.begin(p) {
		g.finish(p.lead)
		return p.index, p.value, p.err
	}
	select {
	case <-p.told:
	case <-ctx.Done():
		if err := g.leave(ctx, p); err != nil {
			return 0, nil, err
		}
		<-p.told
	}
	if p.lead != nil {
		g.finish(p.lead)
	}
	return p.index, p.value, p.err
}

// begin sends a proposal off if nothing is under way, or puts it in line.
func (g *group) begin(p *proposal) (leads bool) {
	g.mu.Lock()
	if g.rounds == roundsUnderWay {
		g.waiting = append(g.waiting, p)
		g.mu.Unlock()
		return false
	}
	g.rounds++
	g.mu.Unlock()
	p.lead = &round{[]*proposal{p}, g.send(p.entry)}
	return true
}

// leave is how one ends its wait early: with an error that says whether it may be written. One that is to lead
// stays, for the others.
func (g *group) leave(ctx context.Context, p *proposal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := slices.Index(g.waiting, p); n >= 0 {
		g.waiting = slices.Delete(g.waiting, n, n+1)
		return structs.Errorf(structs.KindUnavailable, "nothing was written: waiting for other writes: %w", ctx.Err())
	}
	if p.lead != nil {
		return nil
	}
	return structs.Errorf(structs.KindTimeout, "the write may or may not have happened: %w", ctx.Err())
}

// finish waits for a round, sends the next one off and then tells everybody.
func (g *group) finish(r *round) {
	err := r.future.Error()
	g.next()
	if err != nil {
		err = raftError(err)
	}
	for n, p := range r.all {
		p.answer = r.answerOf(n, err)
		if n > 0 {
			close(p.told)
		}
	}
}

func (r *round) answerOf(n int, err error) answer {
	if err != nil {
		return answer{err: err}
	}
	value := r.future.Response()
	if len(r.all) > 1 {
		value = value.(fsm.Answers)[n]
	}
	return answer{index: r.future.Index(), value: value}
}

// next sends off what waits, and has the first of it wait for it.
func (g *group) next() {
	g.mu.Lock()
	all := g.take()
	if len(all) == 0 {
		g.rounds--
		g.mu.Unlock()
		return
	}
	first := all[0]
	first.lead = &round{all: all}
	g.mu.Unlock()
	first.lead.future = g.send(encode(all))
	close(first.told)
}

// take takes the next round out of the line: its first however large it is, and the others as far as they fit.
func (g *group) take() []*proposal {
	n, size := 0, 0
	for n < min(len(g.waiting), fsm.MostInBatch) {
		size += len(g.waiting[n].entry)
		if n > 0 && size > fsm.BytesInBatch {
			break
		}
		n++
	}
	all := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	return all
}

func encode(all []*proposal) []byte {
	if len(all) == 1 {
		return all[0].entry
	}
	entries := make([][]byte, len(all))
	for n, p := range all {
		entries[n] = p.entry
	}
	return fsm.Batch.Encode(entries)
}
