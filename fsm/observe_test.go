package fsm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"berth/fsm"
	"berth/internal/fastjson"
	"berth/server/events"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/event"
)

// watching is an observer that follows the rows of tables by their changes alone.
type watching struct {
	t       rapid.TB
	live    map[string]map[any]bool // rows by table
	indexes []uint64
	events  []string
}

func (w *watching) Observes(table string) bool { return events.RowMaker{}.Makes(table) }

func (w *watching) Restored(uint64) {}

func (w *watching) Publish(newest uint64, entries []fsm.Entry) {
	for _, e := range entries {
		if e.Index > newest || len(w.indexes) > 0 && e.Index <= w.indexes[len(w.indexes)-1] {
			w.t.Fatalf("entry %d comes after %v, and the newest is %d", e.Index, w.indexes, newest)
		}
		w.indexes = append(w.indexes, e.Index)
		for _, c := range e.Changes {
			w.follow(c)
		}
	}
}

// follow applies a change to the known rows, and notes its events.
func (w *watching) follow(c fsm.Change) {
	known := w.live[c.Table]
	if known == nil {
		known = map[any]bool{}
		w.live[c.Table] = known
	}
	if c.Before != nil && !known[c.Before] {
		w.t.Fatalf("%s changes a row of %s that is not the one before", c.Command, c.Table)
	}
	delete(known, c.Before)
	if c.Now != nil {
		known[c.Now] = true
	}

	var encoder fastjson.Encoder
	for _, m := range (events.RowMaker{}).Make(c) {
		if !slices.Contains(event.Types[m.Topic], m.Type) {
			w.t.Fatalf("%s makes an event of type %s, which topic %s does not have", c.Command, m.Type, m.Topic)
		}
		if m.Key == "" {
			w.t.Fatalf("%s makes an event of topic %s without a key", c.Command, m.Topic)
		}
		payload, err := encoder.Append(nil, m.Row())
		if err != nil || !json.Valid(payload) {
			w.t.Fatalf("%s: a payload of topic %s: %v", c.Command, m.Topic, err)
		}
		w.events = append(w.events, fmt.Sprintf("%+v %v %s", *m.Event, m.Deleted, payload))
	}
}

func checkRows[R comparable](w *watching, table string, all iter.Seq[R]) {
	found := 0
	for r := range all {
		found++
		if !w.live[table][r] {
			w.t.Fatalf("a row of %s changed without a change for the observer", table)
		}
	}
	if found != len(w.live[table]) {
		w.t.Fatalf("%s has %d rows; the observer knows %d", table, found, len(w.live[table]))
	}
}

// TestObserver_LearnsOfEachChangeInItsOrder applies random entries. Their changes lead to exactly the rows of
// the state. A server that applies the entries in batches makes the same events.
func TestObserver_LearnsOfEachChangeInItsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store := state.New()
		one := &watching{t: t, live: map[string]map[any]bool{}}
		other := &watching{t: t, live: map[string]map[any]bool{}}
		first := fsm.New(store).Observe(one)
		second := fsm.New(state.New()).Observe(other)
		var batch []*raft.Log
		for n := range rapid.IntRange(1, 60).Draw(t, "length") {
			log := &raft.Log{Type: raft.LogCommand, Index: uint64(n + 1), Data: fsm.DrawEntry(t, store.Read())}
			batch = append(batch, log)
			first.Apply(log)
			if rapid.Bool().Draw(t, "flush") {
				second.ApplyBatch(batch)
				batch = nil
			}
		}
		if len(batch) > 0 {
			second.ApplyBatch(batch)
		}

		tx := store.Read()
		checkRows(one, schema.Jobs.Name(), schema.Jobs.Scan(tx))
		checkRows(one, schema.Evals.Name(), schema.Evals.Scan(tx))
		checkRows(one, schema.Allocs.Name(), schema.Allocs.Scan(tx))
		checkRows(one, schema.Nodes.Name(), schema.Nodes.Scan(tx))
		checkRows(one, schema.Instances.Name(), schema.Instances.Scan(tx))
		checkRows(one, schema.Volumes.Name(), schema.Volumes.Scan(tx))
		checkRows(one, schema.Claims.Name(), schema.Claims.Scan(tx))
		checkRows(one, schema.Attachments.Name(), schema.Attachments.Scan(tx))
		checkRows(one, schema.Snapshots.Name(), schema.Snapshots.Scan(tx))
		checkRows(one, schema.ACLTokens.Name(), schema.ACLTokens.Scan(tx))
		if !slices.Equal(one.events, other.events) || !slices.Equal(one.indexes, other.indexes) {
			t.Fatal("two servers make other events of the same entries")
		}
	})
}

// oneServer applies entries at once. The one of package endpointstest would have all that lies between it and
// fsm compiled again for this test.
type oneServer struct {
	fsm   *fsm.FSM
	index uint64
}

func (s *oneServer) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	s.index++
	result := s.fsm.Apply(&raft.Log{Type: raft.LogCommand, Index: s.index, Data: entry})
	return s.index, result, nil
}

// A purge stops a job and deletes it in one entry, and has one event of the job.
func TestObserver_LearnsOnceOfAPurge(t *testing.T) {
	seen := &watching{t: t, live: map[string]map[any]bool{}}
	store := state.New()
	alone := &oneServer{fsm: fsm.New(store).Observe(seen)}
	group := &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{{Name: "t"}}}
	job := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{group}}
	_, err := fsm.Propose(t.Context(), alone, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	seen.events = nil
	stop := &structs.JobDeregisterRequest{JobID: "j", Purge: true}
	_, err = fsm.Propose(t.Context(), alone, fsm.JobDeregister, stop)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.events) != 1 || !strings.Contains(seen.events[0], "JobDeregistered") ||
		!strings.Contains(seen.events[0], " true ") {
		t.Errorf("the events are %q", seen.events)
	}
	checkRows(seen, schema.Jobs.Name(), schema.Jobs.Scan(store.Read()))
}

// restores counts what an observer learns of restored snapshots.
type restores struct {
	watching
	at []uint64
}

func (r *restores) Restored(index uint64) { r.at = append(r.at, index) }

func TestObserver_LearnsOfARestore(t *testing.T) {
	saved := state.New()
	_ = saved.Write(7, func(*state.WriteTx) error { return nil })
	var b bytes.Buffer
	if err := saved.Save(&b); err != nil {
		t.Fatal(err)
	}
	r := &restores{}
	if err := fsm.New(state.New()).Observe(r).Restore(io.NopCloser(&b)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.at, []uint64{7}) {
		t.Errorf("got the restores %v, want that of index 7", r.at)
	}
}
