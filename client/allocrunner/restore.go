package allocrunner

import (
	"errors"
	"os"
	"path/filepath"

	"berth/structs"
)

// Salvage makes the runner of an allocation that was on this node before, without its record. The runner
// searches for the tasks as after a restart, and assumes that every hook is up.
func Salvage(deps Deps, alloc *structs.Allocation) (*Runner, error) {
	return newRecorded(deps, alloc, true)
}

// Leftover reports whether this node has anything of an allocation, apart from the store.
func Leftover(deps Deps, id string) bool {
	_, err := os.Lstat(filepath.Join(deps.Dir, id))
	return !errors.Is(err, os.ErrNotExist)
}

// assumeBegun assumes that every task and hook has begun. If one has not, the search for it and its removal
// do no harm.
func (r *Runner) assumeBegun() {
	r.logger.Warn("allocation has no readable record, searching for its tasks")
	r.shared.Restored = true
	r.record.rec.Begun = r.hooks.AssumeBegun()
	for _, t := range r.record.tasks {
		t.AssumeBegun()
	}
}

// Restore makes the runner of an allocation that is in the node's store.
func Restore(deps Deps, alloc *structs.Allocation) (*Runner, error) {
	r, err := newRunner(deps, alloc)
	if err != nil {
		return nil, err
	}

	r.shared.Restored = true
	rec, err := allocTable.Get(deps.DB, alloc.ID)
	if err != nil {
		return nil, err
	}

	if rec != nil {
		r.record.rec = *rec
		r.hooks.Restore(rec.Begun)
	}

	for _, t := range r.record.tasks {
		if err := t.LoadRecord(); err != nil {
			return nil, err
		}
	}

	return r, nil
}
