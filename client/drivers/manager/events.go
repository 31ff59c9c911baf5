package manager

import (
	"maps"
	"slices"
	"sync"

	"berth/client/drivers/driver"
	"berth/structs"
)

// maxUnclaimed bounds the events that wait for the handler of their task. The oldest are dropped.
const maxUnclaimed = 64

// taskKey names a task of an allocation.
type taskKey struct{ allocID, task string }

// taskEvents passes the events of drivers to the tasks that they are about. A driver may send an event before
// its task is followed: its process can be older than the agent. The last of such events are kept.
type taskEvents struct {
	mu        sync.Mutex
	followers map[taskKey]*follower
	unclaimed []driver.TaskEvent
}

// follower is the handler of a task.
type follower struct {
	mu      sync.Mutex // held while handle runs
	handle  func(*structs.TaskEvent)
	stopped bool
}

// FollowTask passes the events of a task to handle, until stop is called. When stop has returned, handle is
// not running and is not called again. handle may take a while: it delays only the events of the same driver.
// It must not call stop.
func (m *Manager) FollowTask(allocID, task string, handle func(*structs.TaskEvent)) (stop func()) {
	key := taskKey{allocID, task}
	f := &follower{handle: handle}
	f.mu.Lock() // later events wait for the earlier ones
	defer f.mu.Unlock()
	for _, event := range m.events.follow(key, f) {
		handle(taskEventOf(event))
	}
	return func() { m.events.unfollow(key, f) }
}

// follow adds a handler and returns the events that waited for it.
func (e *taskEvents) follow(key taskKey, f *follower) (waiting []driver.TaskEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.followers == nil {
		e.followers = map[taskKey]*follower{}
	}
	e.followers[key] = f
	e.unclaimed = slices.DeleteFunc(e.unclaimed, func(event driver.TaskEvent) bool {
		mine := keyOf(event) == key
		if mine {
			waiting = append(waiting, event)
		}
		return mine
	})
	return waiting
}

// unfollow removes a handler and waits until it does not run.
func (e *taskEvents) unfollow(key taskKey, f *follower) {
	e.mu.Lock()
	// A restarted task may have a new handler already.
	if e.followers[key] == f {
		delete(e.followers, key)
	}
	e.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	// deliver may have found the follower before it was removed: then take comes after this, and must not
	// call handle.
	f.stopped = true
}

// deliver passes an event on, or keeps it for a while if nobody follows its task.
func (e *taskEvents) deliver(event driver.TaskEvent) {
	e.mu.Lock()
	f := e.followers[keyOf(event)]
	if f == nil {
		e.unclaimed = append(e.unclaimed, event)
		if len(e.unclaimed) > maxUnclaimed {
			e.unclaimed = slices.Delete(e.unclaimed, 0, 1)
		}
	}
	e.mu.Unlock()
	if f != nil {
		f.take(event)
	}
}

// take passes an event to the handler, unless its stop came after deliver had found the follower.
func (f *follower) take(event driver.TaskEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.stopped {
		f.handle(taskEventOf(event))
	}
}

func keyOf(event driver.TaskEvent) taskKey {
	return taskKey{event.AllocID, event.Task}
}

// taskEventOf converts an event to an event of the task's history.
func taskEventOf(event driver.TaskEvent) *structs.TaskEvent {
	details := maps.Clone(event.Annotations)
	if details == nil {
		details = map[string]string{}
	}
	details["driver_message"] = event.Message
	return &structs.TaskEvent{
		Type:    structs.TaskEventDriver,
		Time:    event.Time.UnixNano(),
		Message: event.Message,
		Details: details,
	}
}
