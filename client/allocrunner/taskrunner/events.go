package taskrunner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/client/hooks"
	"berth/structs"
)

func newEvent(kind, format string, args ...any) *structs.TaskEvent {
	return &structs.TaskEvent{
		Type:    kind,
		Message: fmt.Sprintf(format, args...),
	}
}

// addEvent completes an event and adds it to the state of its task.
func addEvent(s *structs.TaskState, e *structs.TaskEvent) {
	e.Time = cmp.Or(e.Time, time.Now().UnixNano())
	e.DisplayMessage = cmp.Or(e.DisplayMessage, e.Message)
	appendEvent(s, e)
}

// appendEvent adds an event to a task's state, dropping the oldest beyond structs.MaxTaskEvents. An event
// about the progress of a work replaces the last one about it, so a long work does not drop the others.
func appendEvent(s *structs.TaskState, e *structs.TaskEvent) {
	if n := len(s.Events); n > 0 && sameWork(s.Events[n-1], e) {
		s.Events[n-1] = e
		return
	}
	s.Events = append(s.Events, e)
	if n := len(s.Events); n > structs.MaxTaskEvents {
		// A part of the old array would keep the dropped events in memory.
		s.Events = slices.Clone(s.Events[n-structs.MaxTaskEvents:])
	}
}

// sameWork reports whether both events tell of the progress of one work.
func sameWork(a, b *structs.TaskEvent) bool {
	work := b.Details[hooks.ProgressKey]
	return work != "" && a.Type == b.Type && a.Details[hooks.ProgressKey] == work
}
