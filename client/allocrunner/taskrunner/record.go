package taskrunner

import (
	"errors"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/store"
	"berth/structs"
)

// taskRecord is one task in the node's store.
type taskRecord struct {
	State    *structs.TaskState
	Starting bool           // the driver was called to start it; Handle is not known yet
	Handle   *driver.Handle // of the process that was started and has not been destroyed
	Begun    []string       // the hooks whose Up may have begun and whose Down has not succeeded
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

var taskTable = store.NewTable[taskRecord]("alloc_tasks")

// DeleteRecords deletes the records of the tasks of an allocation.
func DeleteRecords(db *store.DB, allocID string) error {
	tasks, err := taskTable.All(db, store.Key(allocID, ""))
	// An error comes with the records that could be read.
	for _, t := range tasks {
		err = errors.Join(err, taskTable.Delete(db, t.Key))
	}
	return err
}
