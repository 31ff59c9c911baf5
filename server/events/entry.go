package events

import (
	"sync"

	"berth/fsm"
	"berth/internal/fastjson"
	"berth/structs"
	"berth/structs/event"
)

// Maker makes the events of rows.
type Maker interface {
	// Makes reports whether the rows of a table have events.
	Makes(table string) bool
	// Make returns the events of a change, in their order. It depends on nothing else, so that all servers make
	// the same ones. It neither changes a row nor calls a method that does.
	Make(c fsm.Change) []Made
}

// Made is an event whose payload is not encoded yet. The ring sets Index.
type Made struct {
	*event.Event
	Kind string // the name of the row in the payload
	// Row returns the row for the payload, without secrets.
	Row     func() any
	Deleted bool // the row is the last one, and now gone
}

// entry is a log entry with its changes, or their events.
type entry struct {
	index uint64
	rows  int
	bytes int // of the log entry and of the payloads; under the lock of the ring

	mu      sync.Mutex
	changes []fsm.Change // nil once the events are made
	made    []Made
	json    fastjson.Encoder
}

func newEntry(e *fsm.Entry) *entry {
	return &entry{
		index:   e.Index,
		rows:    len(e.Changes),
		bytes:   e.Bytes + rowBytes*len(e.Changes),
		changes: e.Changes,
	}
}

// events returns the events. The caller holds the lock.
func (e *entry) events(m Maker) []Made {
	for _, c := range e.changes {
		for _, made := range m.Make(c) {
			made.Index = e.index
			e.made = append(e.made, made)
		}
	}
	e.changes = nil
	return e.made
}

// encode encodes the payload of an event, and returns how many bytes it has if it had none.
func (e *entry) encode(m *Made) (int, error) {
	if m.Payload != nil {
		return 0, nil
	}

	payload, err := m.AppendPayload(nil, &e.json)
	if err != nil {
		return 0, err
	}
	m.Payload = payload
	m.Row = nil // the row may go
	return len(m.Payload), nil
}

// AppendPayload appends the JSON of the row under the name of its kind.
func (m *Made) AppendPayload(b []byte, e *fastjson.Encoder) ([]byte, error) {
	b = append(append(b, `{"`...), m.Kind...)
	b, err := e.Append(append(b, `":`...), m.Row())
	if err != nil {
		return nil, structs.Internalf("encoding %s %q: %w", m.Kind, m.Key, err)
	}
	if m.Deleted {
		b = append(b, `,"Deleted":true`...)
	}
	return append(b, '}'), nil
}

// answer is an answer in work.
type answer struct {
	resp  *event.ListResponse
	keep  Keep
	bytes int
}

// add adds the events of an entry that follow the position of the reader. more is false if the answer is
// full.
func (a *answer) add(r *Ring, e *entry) (more bool, err error) {
	e.mu.Lock()
	grown := 0
	defer func() {
		e.mu.Unlock()
		if grown > 0 {
			r.grow(e, grown)
		}
	}()

	made := e.events(r.maker)
	for n := range made {
		if uint64(n) < a.resp.NextSkip {
			continue
		}
		m := &made[n]
		wanted, err := a.keep(m.Event)
		if err != nil {
			return false, err
		}
		if wanted && a.isFull() {
			a.resp.NextSkip = uint64(n)
			return false, nil
		}
		if !wanted {
			continue
		}

		bytes, err := e.encode(m)
		if err != nil {
			return false, err
		}
		grown += bytes
		a.bytes += len(m.Payload)
		a.resp.Events = append(a.resp.Events, m.Event)
	}
	a.resp.Next = e.index
	a.resp.NextSkip = 0
	return true, nil
}

func (a *answer) isFull() bool {
	return len(a.resp.Events) >= maxAnswerEvents || a.bytes >= maxAnswerBytes
}
