package hooks

import (
	"fmt"
	"sync"
	"time"

	"berth/structs"
)

// QuietTime is the time after which a task that waits says so, also without a fault.
const QuietTime = 3 * time.Second

// Wait tells why a task waits: in the description of its allocation, which shows only while no task runs, and
// by an event of the task. It tells each reason once. An event takes the place of the one before it: a long
// wait drops no other event. Tell and End may be called at any time after Begin.
type Wait struct {
	AllocID string
	Task    string
	For     string // names the thing in the message, for example "its token of Consul"
	// Progress receives the reason for which an allocation waits, "" once it no longer waits. It and Emit
	// call no method of the Wait.
	Progress func(allocID, reason string)
	Emit     func(*structs.TaskEvent)

	mu    sync.Mutex
	quiet *time.Timer
	told  string // the newest reason; "" as long as there is none
	over  bool
}

// Begin makes the wait tell of itself after QuietTime, unless it has a reason then. The wait needs End.
func (w *Wait) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quiet = time.AfterFunc(QuietTime, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told == "" {
			w.tell("there is no answer yet")
		}
	})
}

// Tell tells a reason. It does nothing after End.
func (w *Wait) Tell(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != reason {
		w.tell(reason)
	}
}

// tell needs the mutex.
func (w *Wait) tell(reason string) {
	if w.over {
		return
	}
	w.told = reason
	message := fmt.Sprintf("task %s waits for %s: %s", w.Task, w.For, reason)
	w.Progress(w.AllocID, message)
	w.Emit(&structs.TaskEvent{
		Type:    structs.TaskEventHookMessage,
		Message: message,
		Details: map[string]string{ProgressKey: w.For},
	})
}

// End ends the wait. The description of the allocation stays if it is of another task.
func (w *Wait) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.quiet.Stop()
	if w.told != "" {
		w.Progress(w.AllocID, "")
	}
}
