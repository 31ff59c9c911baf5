package drivermanager

import (
	"maps"
	"sync"

	"berth/client/driver"
	"berth/structs"
)

// taskKey names a task of an allocation.
type taskKey struct{ allocID, task string }

// taskEvents passes the events of drivers to the tasks that they are about.
type taskEvents struct {
	mu       sync.RWMutex // held while a handler runs
	handlers map[taskKey]func(*structs.TaskEvent)
}

// FollowTask passes the events of a task to handle, until stop is called. When stop has returned, handle is
// not running and is not called again. handle may take a while: it delays only the events of the same driver.
func (m *Manager) FollowTask(allocID, task string, handle func(*structs.TaskEvent)) (stop func()) {
	key := taskKey{allocID, task}
	m.events.set(key, handle)
	return func() { m.events.set(key, nil) }
}

func (e *taskEvents) set(key taskKey, handle func(*structs.TaskEvent)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if handle == nil {
		delete(e.handlers, key)
		return
	}
	if e.handlers == nil {
		e.handlers = map[taskKey]func(*structs.TaskEvent){}
	}
	e.handlers[key] = handle
}

// deliver passes an event on. Nobody follows a task that has ended: its events are dropped.
func (e *taskEvents) deliver(event driver.TaskEvent) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	handle := e.handlers[taskKey{event.AllocID, event.Task}]
	if handle == nil {
		return
	}
	details := maps.Clone(event.Annotations)
	if details == nil {
		details = map[string]string{}
	}
	details["driver_message"] = event.Message
	handle(&structs.TaskEvent{
		Type:    structs.TaskEventDriver,
		Time:    event.Time.UnixNano(),
		Message: event.Message,
		Details: details,
	})
}
