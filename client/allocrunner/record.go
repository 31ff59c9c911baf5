package allocrunner

import (
	"errors"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/store"
	"berth/structs"
)

// allocRecord is an allocation in the node's store.
type allocRecord struct {
	Alloc *structs.Allocation // with its job
	// Begun names the hooks whose Up may have begun and whose Down has not succeeded, in their order.
	Begun []string
	// Failure is the reason for the failure of the whole allocation: before its tasks could start, or because
	// it lost a volume (Lost).
	Failure string
	Lost    bool
	// Received is the time at which the allocation came to this node.
	Received time.Time
	// Expired is set once the allocation is to end because of its group's max_run_duration.
	Expired bool `codec:",omitempty"`
	// Restarting is set while all tasks are being stopped to be started again.
	Restarting bool
	Health     *lifecycle.Health `codec:",omitempty"` // nil: nothing has begun to decide it
}

// taskRecord is one task in the node's store.
type taskRecord struct {
	State    *structs.TaskState
	Starting bool           // the driver was called to start it; Handle is not known yet
	Handle   *driver.Handle // of the process that was started and has not been destroyed
	Begun    []string       // as in allocRecord
	History  lifecycle.History
	// Ran is set once the process has started: the next start is not the first.
	Ran bool
	// Ended is the end of the last process, until it is decided whether the task starts again. The driver may
	// have forgotten the process by then.
	Ended *driver.ExitResult `codec:",omitempty"`
}

// runs reports whether the task has a process.
func (r *taskRecord) runs() bool {
	return r.State.State == structs.TaskRunning && r.Handle != nil
}

// markRunning records a process that runs.
func (r *taskRecord) markRunning(h *driver.Handle) {
	r.Handle = h
	r.Starting = false
	r.Ran = true
}

var (
	allocTable = store.NewTable[allocRecord]("allocs")
	taskTable  = store.NewTable[taskRecord]("alloc_tasks")
)

// Saved lists the allocations in the store, for Restore. With an error the list has the readable ones.
func Saved(db *store.DB) ([]*structs.Allocation, error) {
	records, err := allocTable.All(db, "")
	allocs := make([]*structs.Allocation, 0, len(records))
	for _, r := range records {
		alloc := r.Value.Alloc
		if alloc == nil || alloc.Job == nil {
			err = errors.Join(err,
				structs.Internalf("the record of allocation %s is incomplete", r.Key))
			continue
		}
		allocs = append(allocs, alloc)
	}
	return allocs, err
}

// deleteRecords deletes the records of an allocation's tasks, and then its own.
func deleteRecords(db *store.DB, alloc *structs.Allocation) error {
	tasks, err := taskTable.All(db, store.Key(alloc.ID, ""))
	for _, t := range tasks {
		err = errors.Join(err, taskTable.Delete(db, t.Key))
	}
	if err != nil {
		return err
	}
	return allocTable.Delete(db, alloc.ID)
}
