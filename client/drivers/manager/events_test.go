package manager

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/driver"
	"berth/structs"
)

func newsOf(allocID, task, message string) driver.TaskEvent {
	return driver.TaskEvent{
		AllocID:     allocID,
		Task:        task,
		Message:     message,
		Annotations: map[string]string{"image": "x"},
		Time:        time.Unix(7, 0),
	}
}

// inbox collects the messages of a task.
type inbox struct{ messages []string }

func (i *inbox) take(e *structs.TaskEvent) { i.messages = append(i.messages, e.Message) }

func TestFollowTask_PassesOnTheEventsOfTheTaskAlone(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	var first, second inbox
	defer m.FollowTask("a1", "web", first.take)()
	defer m.FollowTask("a2", "web", second.take)()
	for _, event := range []driver.TaskEvent{
		newsOf("a1", "web", "one"),
		newsOf("a2", "web", "two"),
		newsOf("a1", "db", "other task"),
		newsOf("a3", "web", "other allocation"),
		newsOf("", "", "nobody"),
	} {
		m.events.deliver(event)
	}
	if !slices.Equal(first.messages, []string{"one"}) || !slices.Equal(second.messages, []string{"two"}) {
		t.Errorf("got %q and %q", first.messages, second.messages)
	}
}

func TestFollowTask_MakesAnEventOfTheTask(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	var got *structs.TaskEvent
	defer m.FollowTask("a1", "web", func(e *structs.TaskEvent) { got = e })()
	m.events.deliver(newsOf("a1", "web", "pulling"))
	if got == nil || got.Type != "Driver" || got.Message != "pulling" ||
		got.Time != time.Unix(7, 0).UnixNano() ||
		got.Details["image"] != "x" || got.Details["driver_message"] != "pulling" {
		t.Errorf("got %+v", got)
	}
}

// A driver that is older than the agent may send an event before the agent has found the task.
func TestFollowTask_ReceivesTheLastEventsBefore(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	m.events.deliver(newsOf("a1", "web", "dropped"))
	for i := range maxUnclaimed {
		m.events.deliver(newsOf("a1", []string{"web", "db"}[i%2], fmt.Sprint(i)))
	}
	var got inbox
	stop := m.FollowTask("a1", "web", got.take)
	if len(got.messages) != maxUnclaimed/2 || got.messages[0] != "0" || got.messages[1] != "2" {
		t.Errorf("got %q", got.messages)
	}
	if left := len(m.events.unclaimed); left != maxUnclaimed/2 {
		t.Errorf("%d events are kept", left)
	}
	stop()
	m.events.deliver(newsOf("a1", "web", "late"))
	if slices.Contains(got.messages, "late") {
		t.Error("a handler is called after stop")
	}
	var next inbox
	defer m.FollowTask("a1", "web", next.take)()
	if !slices.Equal(next.messages, []string{"late"}) {
		t.Errorf("the next handler got %q of the events after stop", next.messages)
	}
}

// A driver's event can find its follower just before the stop, and reach it after.
func TestFollowTask_CallsNoHandlerAfterItsStop(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	var got inbox
	stop := m.FollowTask("a1", "web", got.take)
	found := m.events.followers[taskKey{"a1", "web"}]
	stop()
	found.take(newsOf("a1", "web", "late"))
	if len(got.messages) != 0 {
		t.Errorf("got %q after the stop", got.messages)
	}
}

func TestFollowTask_StopWaitsForItsHandlerAlone(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	entered := make(chan struct{})
	release := make(chan struct{})
	var finished atomic.Bool
	stopSlow := m.FollowTask("a1", "web", func(*structs.TaskEvent) {
		close(entered)
		<-release
		finished.Store(true)
	})
	go m.events.deliver(newsOf("a1", "web", "slow"))
	<-entered
	var other inbox
	stop := m.FollowTask("a2", "web", other.take)
	m.events.deliver(newsOf("a2", "web", "quick"))
	stop()
	if len(other.messages) != 1 || finished.Load() {
		t.Errorf("another task got %q beside a handler that hangs", other.messages)
	}
	go close(release)
	stopSlow()
	if !finished.Load() {
		t.Error("stop returned before its handler")
	}
}

func TestFollowTask_AnOldStopLeavesTheNewHandler(t *testing.T) {
	m := newManager(nil, hclog.NewNullLogger())
	var first, second inbox
	stop := m.FollowTask("a1", "web", first.take)
	defer m.FollowTask("a1", "web", second.take)()
	stop()
	m.events.deliver(newsOf("a1", "web", "one"))
	if len(first.messages) != 0 || len(second.messages) != 1 {
		t.Errorf("got %q and %q", first.messages, second.messages)
	}
}
