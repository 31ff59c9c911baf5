package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/coalesce"
	"berth/structs"
)

// batcher merges concurrent proposals into few entries of the log. Its rules:
//
//   - A proposal that arrives while no batch is in flight is sent at once, with others that are runnable.
//   - Proposals that arrive meanwhile share the next batch, in the order of their arrival.
//   - Each proposal gets its own answer. If an entry fails, all proposals in it fail.
type batcher struct {
	send      func(entry []byte) raft.ApplyFuture
	proposals coalesce.Batcher[struct{}, *proposal]
}

type proposal struct {
	entry []byte
	index uint64
	value any
	err   error
}

// inFlight is an entry of the log that Raft has not answered yet.
type inFlight struct {
	proposals []*proposal
	future    raft.ApplyFuture
}

// Propose puts an entry into the log and waits until it is applied here (fsm.Proposer).
func (s *Server) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	c := s.consensus
	if err := ctx.Err(); err != nil {
		return 0, nil, structs.Unavailablef("the log entry was not proposed: %w", err)
	}

	if err := checkSize(entry); err != nil {
		return 0, nil, err
	}

	if err := c.enter(); err != nil {
		return 0, nil, err
	}
	defer c.inside.Done()

	entry, err := fsm.FitLevel(entry, s.level())
	if err != nil {
		return 0, nil, fmt.Errorf("the log entry was not written: %w", err)
	}

	if fsm.CommandOf(entry).Batched {
		return c.batcher.propose(ctx, entry)
	}

	f := c.send(entry)
	if err := f.Error(); err != nil {
		return 0, nil, raftError(err)
	}

	return f.Index(), f.Response(), nil
}

// send puts an entry into Raft's queue.
func (c *consensus) send(entry []byte) raft.ApplyFuture {
	return c.Apply(entry, enqueueTimeout)
}

// checkSize rejects an entry that the log could not give back: its reader has a bound, its writer has none. A
// batch keeps to the bound by itself: it is one entry, or several of at most fsm.BytesInBatch.
func checkSize(entry []byte) error {
	if len(entry) <= structs.MaxEntry {
		return nil
	}
	return structs.Invalidf("%s would be a log entry of %d bytes; at most %d are allowed",
		fsm.CommandOf(entry).Name, len(entry), structs.MaxEntry)
}

// unledErrors are those with which Raft rejects an entry at a server that does not lead.
var unledErrors = []error{
	raft.ErrNotLeader,
	raft.ErrLeadershipTransferInProgress,
	raft.ErrRaftShutdown,
}

// raftError classifies Raft's errors by whether the outcome is known. After an error that it does not know,
// for instance one of the disk, the entry may be in the log and may be committed.
func raftError(err error) error {
	if errors.Is(err, raft.ErrEnqueueTimeout) { // the leader is slow, and no other server leads
		return structs.Unavailablef("the log entry was not written: %w", err)
	}
	for _, known := range unledErrors {
		if errors.Is(err, known) {
			return structs.NotServedf("the log entry was not written: %w", err)
		}
	}
	return structs.Timeoutf("the write may or may not have happened: %w", err)
}

func newBatcher(send func(entry []byte) raft.ApplyFuture) *batcher {
	b := &batcher{send: send}
	b.proposals.Most = fsm.MostInBatch
	b.proposals.Propose = b.writeBatch
	return b
}

// propose writes an entry and waits until it is applied. If ctx ends before the batch of the entry is sent,
// nothing is written; if ctx ends later, the entry may still be written. The first proposal of a batch stays:
// if its ctx ends, it sends the batch at once and waits for the outcome of its entry.
func (b *batcher) propose(ctx context.Context, entry []byte) (uint64, any, error) {
	p := &proposal{entry: entry}
	_, err := b.proposals.Do(ctx, struct{}{}, p)
	if err != nil {
		return 0, nil, err
	}
	return p.index, p.value, p.err
}

// writeBatch sends all proposals in as few entries as their size allows, and waits for the answers.
func (b *batcher) writeBatch(
	_ context.Context,
	_ struct{},
	all []*proposal,
) (uint64, error) {
	var entries []inFlight
	for len(all) > 0 {
		n := fittingCount(all)
		future := b.send(encodeProposals(all[:n]))
		entries = append(entries, inFlight{all[:n], future})
		all = all[n:]
	}

	// All entries are in Raft's queue before the first answer, so that Raft can write them together.
	for _, e := range entries {
		e.awaitAnswer()
	}

	return 0, nil // each proposal has its own index
}

// fittingCount returns the number of first proposals that share an entry: the first of any size, and the
// following ones as far as they fit.
func fittingCount(all []*proposal) int {
	size := len(all[0].entry)
	for n, p := range all[1:] {
		size += len(p.entry)
		if size > fsm.BytesInBatch {
			return n + 1
		}
	}
	return len(all)
}

func encodeProposals(all []*proposal) []byte {
	if len(all) == 1 {
		return all[0].entry
	}
	entries := make([][]byte, len(all))
	for n, p := range all {
		entries[n] = p.entry
	}
	return fsm.Batch.Encode(entries)
}

// awaitAnswer waits for Raft and gives each proposal its answer.
func (e inFlight) awaitAnswer() {
	err := e.future.Error()
	if err != nil {
		err = raftError(err)
		for _, p := range e.proposals {
			p.err = err
		}

		return
	}

	answers := fsm.Answers{e.future.Response()}
	if len(e.proposals) > 1 {
		answers = e.future.Response().(fsm.Answers)
	}

	for n, p := range e.proposals {
		p.index = e.future.Index()
		p.value = answers[n]
	}
}
