package allocrunner

import (
	"errors"
	"time"

	"berth/client/allocrunner/lifecycle"
	"berth/client/allocrunner/taskrunner"
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
	// FailureEvent is the type of the task events for it, "" for the others' type.
	FailureEvent string `codec:",omitempty"`
	// Received is the time at which the allocation came to this node.
	Received time.Time
	// Expired is set once the allocation is to end because of its group's max_run_duration.
	Expired bool `codec:",omitempty"`
	// Restarting is set while all tasks are being stopped to be started again.
	Restarting bool
	Health     *lifecycle.Health `codec:",omitempty"` // nil: nothing has begun to decide it
}

var allocTable = store.NewTable[allocRecord]("allocs")

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
	if err := taskrunner.DeleteRecords(db, alloc.ID); err != nil {
		return err
	}
	return allocTable.Delete(db, alloc.ID)
}
