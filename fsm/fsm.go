package fsm

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"

	"berth/state"
	"berth/structs"
)

// FSM applies log entries to a store.
type FSM struct{ store *state.Store }

var _ raft.BatchingFSM = (*FSM)(nil)

// New returns the FSM of the store, which nothing else may write to.
func New(store *state.Store) *FSM { return &FSM{store} }

// Apply applies one entry and returns nil, or the error that is the command's answer; Answers of a batch.
func (f *FSM) Apply(log *raft.Log) any { return f.ApplyBatch([]*raft.Log{log})[0] }

// ApplyBatch applies entries in one transaction, each all-or-nothing in it.
func (f *FSM) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	b := f.store.Begin()
	defer b.Abort()
	for n, log := range logs {
		if log.Type != raft.LogCommand {
			continue
		}
		answers[n] = applyLog(b, log)
	}
	b.Commit()
	return answers
}

// applyLog panics on an entry it cannot read: a server that passed over it would differ from the others
// for ever.
func applyLog(b *state.Batch, log *raft.Log) any {
	answer, err := applyEntry(b, log)
	if err != nil {
		panic(fmt.Sprintf("log entry %d cannot be applied, the server stops so as not to diverge: %v", log.Index, err))
	}
	return answer
}

// applyEntry fails where the entry cannot be read.
func applyEntry(b *state.Batch, log *raft.Log) (answer any, err error) {
	if len(log.Data) == 0 || log.Data[0] != Batch.ID {
		return applyOne(b, log.Index, log.Data)
	}
	entries, err := Batch.entries(log.Data[1:])
	if err != nil {
		return nil, err
	}
	answers := make(Answers, len(entries))
	for n, entry := range entries {
		if answers[n], err = applyOne(b, log.Index, entry); err != nil {
			return nil, fmt.Errorf("entry %d of a batch: %w", n, err)
		}
	}
	return answers, nil
}

func applyOne(b *state.Batch, index uint64, entry []byte) (answer any, err error) {
	name, apply, err := decodeEntry(entry)
	if err != nil {
		return nil, err
	}
	defer metrics.MeasureSinceWithLabels([]string{"fsm", "apply"}, time.Now(), []metrics.Label{{Name: "command", Value: name}})
	if err := b.Apply(index, apply); err != nil {
		return err, nil
	}
	return nil, nil
}

// Snapshot takes the state as it is; it costs nothing until it is persisted.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) { return &snapshot{f.store.Read()}, nil }

// Restore replaces the state by a snapshot's. When it fails the state is as it was.
func (f *FSM) Restore(r io.ReadCloser) error {
	restoreGC.begin()
	defer restoreGC.end()
	if err := f.store.Load(r); err != nil {
		_ = r.Close() // the error that counts is the other
		return fmt.Errorf("restoring the state: %w", err)
	}
	return r.Close()
}

// LoadAside loads the state that was saved at an index into a store of its own. Its errors are invalid.
func LoadAside(r io.Reader, index uint64) (*state.Store, error) {
	aside := state.New()
	if err := New(aside).Restore(io.NopCloser(r)); err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "the archive holds a state that this version cannot load: %w", err)
	}
	if newest := aside.Index(); newest > index {
		return nil, structs.Errorf(structs.KindInvalid, "the archive is of index %d and holds a state of index %d", index, newest)
	}
	return aside, nil
}

type snapshot struct{ tx *state.ReadTx }

// Persist streams the state into the sink.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.tx.Save(sink); err != nil {
		_ = sink.Cancel() // the error that counts is the other
		return fmt.Errorf("saving the state: %w", err)
	}
	return sink.Close()
}

// Release has nothing to do: the rows go when nobody reads them.
func (s *snapshot) Release() {}
