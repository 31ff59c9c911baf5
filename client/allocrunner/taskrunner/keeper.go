package taskrunner

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/structs"
)

// recordKeeper keeps the record of one task, in memory and in the store.
type recordKeeper struct {
	db      *store.DB
	key     string
	logger  hclog.Logger
	changed func() // called after each update, without the lock

	mu  sync.Mutex // guards rec, and orders the writes to the store
	rec taskRecord // the values behind its pointers do not change
}

func newRecordKeeper(s *Shared, task string, logger hclog.Logger) *recordKeeper {
	return &recordKeeper{
		db:      s.DB,
		key:     store.Key(s.AllocID, task),
		logger:  logger,
		changed: s.Changed,
		rec:     taskRecord{State: &structs.TaskState{State: structs.TaskPending}},
	}
}

// load reads the record of a former agent, and returns its begun hooks.
func (k *recordKeeper) load() (begun []string, err error) {
	rec, err := taskTable.Get(k.db, k.key)
	if err != nil || rec == nil {
		return nil, err
	}
	// No other goroutine has the task yet, so this takes no lock.
	k.rec = *rec
	if k.rec.State == nil {
		k.rec.State = &structs.TaskState{State: structs.TaskPending}
	}
	return rec.Begun, nil
}

func (k *recordKeeper) get() taskRecord {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec
}

// state returns a copy of the task's state.
func (k *recordKeeper) state() *structs.TaskState {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.State.Copy()
}

// save edits the record and makes it durable. The edit must not change values behind pointers.
func (k *recordKeeper) save(edit func(*taskRecord)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The edit is of a copy: if the write fails, the record stays as it was.
	rec := k.rec
	edit(&rec)
	err := taskTable.Put(k.db, k.key, &rec)
	if err != nil {
		return err
	}
	k.rec = rec
	return nil
}

// update is save for a change that has already happened: if the write fails, the record keeps the change in
// memory and logs the error. It calls changed. The event may be nil.
func (k *recordKeeper) update(e *structs.TaskEvent, edit func(rec *taskRecord, s *structs.TaskState)) {
	k.mu.Lock()
	rec := k.rec
	// Member hands the old state out without a copy, so it stays as it is.
	rec.State = rec.State.Copy()
	edit(&rec, rec.State)
	if e != nil {
		addEvent(rec.State, e)
	}
	k.rec = rec
	err := taskTable.Put(k.db, k.key, &rec)
	k.mu.Unlock()
	if err != nil {
		k.logger.Error("failed to record the task's state", "error", err)
	}
	k.changed()
}

// emit adds an event.
func (k *recordKeeper) emit(e *structs.TaskEvent) {
	k.update(e, func(*taskRecord, *structs.TaskState) {})
}
