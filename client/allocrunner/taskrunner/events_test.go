package taskrunner

import (
	"fmt"
	"testing"

	"berth/client/hooks"
	"berth/structs"
)

func TestAppendEvent_ReplacesProgressOfTheSameWork(t *testing.T) {
	progress := func(work, message string) *structs.TaskEvent {
		return &structs.TaskEvent{
			Type:    structs.TaskEventDownloading,
			Message: message,
			Details: map[string]string{hooks.ProgressKey: work},
		}
	}
	s := &structs.TaskState{}
	appendEvent(s, newEvent(structs.TaskEventReceived, "received"))
	for i := range 2 * structs.MaxTaskEvents {
		appendEvent(s, progress("artifact 1", fmt.Sprint(i)))
	}
	appendEvent(s, progress("artifact 2", "other"))
	appendEvent(s, newEvent(structs.TaskEventDownloading, "complete"))
	appendEvent(s, newEvent(structs.TaskEventDownloading, "complete"))
	var got []string
	for _, e := range s.Events {
		got = append(got, e.Message)
	}
	if want := "[received 19 other complete complete]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestAppendEvent_KeepsTheNewest(t *testing.T) {
	s := &structs.TaskState{}
	for i := range 25 {
		appendEvent(s, &structs.TaskEvent{ExitCode: i})
	}
	if len(s.Events) != structs.MaxTaskEvents ||
		s.Events[0].ExitCode != 15 || s.Events[9].ExitCode != 24 {
		t.Errorf("%d events, from %d", len(s.Events), s.Events[0].ExitCode)
	}
}
