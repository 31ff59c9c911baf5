package fsm

import (
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-metrics"
	"github.com/hashicorp/raft"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// FSM applies log entries to a store.
type FSM struct {
	store    *state.Store
	observer Observer // nil: none
	marks    marks
}

var _ raft.BatchingFSM = (*FSM)(nil)

// New returns the FSM of the store. Only the FSM may write to the store.
func New(store *state.Store) *FSM {
	return &FSM{store: store}
}

// Apply applies one entry. It returns the error that is the result of the command, or nil. For a batch it
// returns Answers.
func (f *FSM) Apply(log *raft.Log) any {
	return f.ApplyBatch([]*raft.Log{log})[0]
}

// ApplyBatch applies entries in one transaction, or in several if there is a mark among them. Each entry is
// atomic.
func (f *FSM) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, 0, len(logs))
	for len(logs) > 0 {
		run, marked := f.marks.next(logs)
		answers = append(answers, f.applyRun(logs[:run])...)
		if marked {
			f.marks.take(logs[run-1].Index, f.store.Read())
		}
		logs = logs[run:]
	}
	return answers
}

// applyRun applies entries in one transaction.
func (f *FSM) applyRun(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	b := &applying{Batch: f.store.Begin(), observer: f.observer}
	defer b.Abort()
	for n, log := range logs {
		b.newest = log.Index
		if log.Type == raft.LogCommand {
			b.begin(log)
			answers[n] = applyLog(b, log)
		}
	}
	b.Commit()
	b.publish()
	return answers
}

// applyLog applies one entry. It panics if it cannot decode the entry, because a server that skipped it would
// diverge from the others for ever.
func applyLog(b *applying, log *raft.Log) any {
	answer, err := applyEntry(b, log)
	if err != nil {
		panic(fmt.Sprintf("log entry %d cannot be applied, the server stops so as not to diverge: %v",
			log.Index, err))
	}
	return answer
}

// applyEntry applies one entry or batch. The error comes from decoding.
func applyEntry(b *applying, log *raft.Log) (answer any, err error) {
	if len(log.Data) == 0 || log.Data[0] != Batch.ID {
		return applyOne(b, log.Index, log.Data)
	}
	entries, err := Batch.entries(log.Data[1:])
	if err != nil {
		return nil, err
	}
	answers := make(Answers, len(entries))
	for n, entry := range entries {
		answers[n], err = applyOne(b, log.Index, entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d of a batch: %w", n, err)
		}
	}
	return answers, nil
}

// applyOne applies an entry that is no batch. The answer is the result of the command.
func applyOne(
	b *applying,
	index uint64,
	entry []byte,
) (answer any, err error) {
	name, apply, err := decodeEntry(entry)
	if err != nil {
		return nil, err
	}
	labels := []metrics.Label{{Name: "command", Value: name}}
	defer metrics.MeasureSinceWithLabels([]string{"fsm", "apply"}, time.Now(), labels)
	if err := b.Apply(index, apply); err != nil {
		return err, nil
	}
	b.keep(name)
	return nil, nil
}

// Snapshot returns the current state. It copies nothing.
func (f *FSM) Snapshot() (raft.FSMSnapshot, error) {
	return &storeSnapshot{f.store.Read()}, nil
}

// Restore replaces the state by a snapshot. It keeps the old state if it fails.
func (f *FSM) Restore(r io.ReadCloser) error {
	err := f.store.Load(r)
	if err != nil {
		_ = r.Close() // the caller needs the first error
		return fmt.Errorf("restoring the state: %w", err)
	}
	if f.observer != nil {
		f.observer.Restored(f.store.Index())
	}
	return r.Close()
}

// LoadAside loads the state that was saved at an index into a new store. Its errors are of kind invalid.
func LoadAside(r io.Reader, index uint64) (*state.Store, error) {
	aside := state.New()
	err := New(aside).Restore(io.NopCloser(r))
	if err != nil {
		return nil, structs.Invalidf("the archive holds a state that this version cannot load: %w", err)
	}
	if newest := aside.Index(); newest > index {
		return nil, structs.Invalidf("the archive is of index %d and holds a state of index %d",
			index, newest)
	}
	return aside, nil
}

type storeSnapshot struct{ tx *state.ReadTx }

// Persist streams the state into the sink.
func (s *storeSnapshot) Persist(sink raft.SnapshotSink) error {
	err := s.tx.Save(sink)
	if err != nil {
		_ = sink.Cancel() // the caller needs the first error
		return fmt.Errorf("saving the state: %w", err)
	}
	return sink.Close()
}

// Release does nothing, because the garbage collector frees the rows.
func (s *storeSnapshot) Release() {}

// decodeEntry finds the command of a log entry and reads its payload. It returns the command's name and its
// application to a transaction.
func decodeEntry(entry []byte) (string, func(*state.WriteTx) error, error) {
	c := CommandOf(entry)
	switch {
	case len(entry) == 0:
		return "", nil, fmt.Errorf("the entry is empty")
	case c == unknown:
		return "", nil, fmt.Errorf(
			"this version knows no command %d: was the log written by a newer one?", entry[0])
	case c.Payload == nil:
		return "", nil, fmt.Errorf("reading the payload of Batch: a batch inside a batch")
	}

	payload := c.Payload()
	err := codec.Decode(entry[1:], payload)
	if err != nil {
		return "", nil, fmt.Errorf("reading the payload of %s: %w", c.Name, err)
	}

	return c.Name, func(tx *state.WriteTx) error {
		return c.apply(tx, payload)
	}, nil
}
