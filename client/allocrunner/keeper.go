package allocrunner

import (
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/store"
	"berth/structs"
)

// recordKeeper keeps the record of an allocation, in memory and in the store, and its current tasks.
type recordKeeper struct {
	db     *store.DB
	id     string
	logger hclog.Logger
	first  *structs.TaskGroup // as the agent first saw it

	mu         sync.Mutex  // guards all below, and orders the writes to the store
	rec        allocRecord // the values behind its pointers do not change
	progress   string      // the reason for which the set-up waits
	round      *lifecycle.Round
	tasks      taskSet // the tasks of the round and the poststop tasks; a change makes another slice
	roundsOver bool    // no round follows
}

// alloc returns the allocation as the servers last sent it, with its job.
func (k *recordKeeper) alloc() *structs.Allocation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.Alloc
}

// group returns the task group as the servers last sent it. A version without the group changes nothing.
func (k *recordKeeper) group() *structs.TaskGroup {
	g := k.alloc().Job.Group(k.first.Name)
	if g != nil {
		return g
	}
	return k.first
}

// get returns the record and the current round.
func (k *recordKeeper) get() (allocRecord, *lifecycle.Round) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec, k.round
}

// save edits the record and makes it durable.
func (k *recordKeeper) save(edit func(*allocRecord)) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	rec := k.rec
	edit(&rec)
	err := allocTable.Put(k.db, k.id, &rec)
	if err != nil {
		return err
	}
	k.rec = rec
	return nil
}

func (k *recordKeeper) saveBegun(recorded []string) error {
	return k.save(func(rec *allocRecord) {
		rec.Begun = recorded
	})
}

// failure is the failure of a whole allocation: see allocRecord.
type failure struct {
	reason string
	lost   bool
	event  string
}

// saveFailure records the failure of the allocation. The first reason stays.
func (k *recordKeeper) saveFailure(f failure) {
	err := k.save(func(rec *allocRecord) {
		if rec.Failure == "" {
			rec.Failure = f.reason
			rec.FailureEvent = f.event
		}
		rec.Lost = rec.Lost || f.lost
	})
	if err != nil {
		k.logger.Error("failed to record the allocation's failure", "error", err)
	}
}

// setProgress sets the reason for which the set-up waits. It reports whether that is another one.
func (k *recordKeeper) setProgress(reason string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	same := k.progress == reason
	k.progress = reason
	return !same
}

// received returns the time at which the allocation came to the node.
func (k *recordKeeper) received() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.Received
}

// health returns the record for the current deployment.
func (k *recordKeeper) health() lifecycle.Health {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rec.Health.IsOf(k.rec.Alloc) {
		return *k.rec.Health
	}
	return lifecycle.NewHealth(k.rec.Alloc)
}

// summarize completes a report with TaskStates.
func (k *recordKeeper) summarize(u *structs.AllocClientUpdate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	u.ClientStatus, u.ClientDescription = lifecycle.Summarize(u.TaskStates, lifecycle.Marks{
		Restarting: k.rec.Restarting,
		Expired:    k.rec.Expired,
		Failure:    k.rec.Failure,
		Progress:   k.progress,
	})

	u.DeploymentStatus = k.rec.Health.Reported(k.rec.Alloc)
	if u.DeploymentStatus != nil {
		u.DeploymentID = k.rec.Alloc.DeploymentID
	}
}

// current returns the current round, and its tasks with the poststop tasks in the order of the group.
func (k *recordKeeper) current() (*lifecycle.Round, taskSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.round, k.tasks
}

func (k *recordKeeper) taskList() taskSet {
	_, tasks := k.current()
	return tasks
}

// members returns the tasks for decisions on their order.
func (k *recordKeeper) members() []lifecycle.Member { return k.taskList().members() }

func (k *recordKeeper) anyRunning() bool { return lifecycle.AnyRunning(k.members()) }

// saveRestart records that all tasks are being restarted, and returns the round that is to end for that. It
// is nil if no round can follow.
func (k *recordKeeper) saveRestart() (*lifecycle.Round, error) {
	var rd *lifecycle.Round
	err := k.save(func(rec *allocRecord) {
		// save holds the lock that endRound takes: a round follows this restart, or it is a conflict.
		if !k.roundsOver {
			rec.Restarting = true
			rd = k.round
		}
	})
	return rd, err
}

// endRound reports whether another round is to follow the current one, which has ended. If not, none ever
// follows.
func (k *recordKeeper) endRound(orders *lifecycle.Orders) (again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	again = k.rec.Restarting && orders.Stopping.Err() == nil
	k.roundsOver = !again
	return again
}

// setRound sets the round and records that no restart of all tasks is under way. If the write fails, an agent
// that restarts before the next write restarts the tasks once more. It reports whether one was under way.
func (k *recordKeeper) setRound(rd *lifecycle.Round, tasks taskSet) (restarting bool) {
	var err error
	k.mu.Lock()
	restarting = k.rec.Restarting
	k.rec.Restarting = false
	k.round = rd
	k.tasks = tasks
	if restarting {
		err = allocTable.Put(k.db, k.id, &k.rec)
	}
	k.mu.Unlock()
	if err != nil {
		k.logger.Error("failed to record the restart of all tasks", "error", err)
	}
	return restarting
}
