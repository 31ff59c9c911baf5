package structs

import (
	"maps"
	"slices"
	"time"
)

// TimeFitsJSON reports whether JSON has a form for a time. One time without a form makes every list with it
// fail.
func TimeFitsJSON(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 0 && year <= 9999
}

// Bounded returns the report with cut texts and with the newest events of each task: a node would repeat a
// rejected report for ever. It returns the report itself if nothing is beyond a limit.
func (u *AllocClientUpdate) Bounded() *AllocClientUpdate {
	if u.bounded() {
		return u
	}

	c := &AllocClientUpdate{
		ID:                u.ID,
		ClientStatus:      Cut(u.ClientStatus, MaxName),
		ClientDescription: Cut(u.ClientDescription, MaxText),
		DeploymentID:      Cut(u.DeploymentID, MaxName),
		DeploymentStatus:  u.DeploymentStatus,
		Services:          u.Services,
		NetworkStatus:     u.NetworkStatus.Bounded(),
	}

	if u.TaskStates == nil {
		return c // nil keeps the stored states
	}

	c.TaskStates = map[string]*TaskState{}
	tasks := slices.Sorted(maps.Keys(u.TaskStates))
	for _, task := range tasks[:min(len(tasks), MaxListed)] {
		if len(task) <= MaxName {
			c.TaskStates[task] = u.TaskStates[task].cut()
		}
	}

	return c
}

func (u *AllocClientUpdate) bounded() bool {
	if len(u.ClientStatus) > MaxName ||
		len(u.ClientDescription) > MaxText ||
		!u.NetworkStatus.bounded() ||
		len(u.TaskStates) > MaxListed {
		return false
	}
	for task, s := range u.TaskStates {
		if len(task) > MaxName || !s.bounded() {
			return false
		}
	}
	return true
}

func (s *TaskState) bounded() bool {
	if s == nil {
		return true
	}
	unbounded := func(e *TaskEvent) bool { return !e.bounded() }
	return len(s.State) <= MaxName &&
		len(s.Events) <= MaxTaskEvents &&
		TimeFitsJSON(s.LastRestart) &&
		TimeFitsJSON(s.StartedAt) &&
		TimeFitsJSON(s.FinishedAt) &&
		!slices.ContainsFunc(s.Events, unbounded)
}

func (e *TaskEvent) bounded() bool {
	return e == nil || len(e.Type) <= MaxName &&
		len(e.DisplayMessage) <= MaxText &&
		len(e.Message) <= MaxText &&
		PairBytes(e.Details) <= MaxText
}

// cut returns a copy within the limits.
func (s *TaskState) cut() *TaskState {
	if s.bounded() {
		return s
	}

	c := *s
	c.State = Cut(s.State, MaxName)
	for _, at := range []*time.Time{&c.LastRestart, &c.StartedAt, &c.FinishedAt} {
		if !TimeFitsJSON(*at) {
			*at = time.Time{}
		}
	}

	oldest := max(0, len(s.Events)-MaxTaskEvents)
	c.Events = slices.Clone(s.Events[oldest:])
	for i, e := range c.Events {
		if !e.bounded() {
			own := *e
			own.Type = Cut(e.Type, MaxName)
			own.Details = nil
			own.DisplayMessage = Cut(e.DisplayMessage, MaxText)
			own.Message = Cut(e.Message, MaxText)
			if PairBytes(e.Details) <= MaxText {
				own.Details = e.Details
			}

			c.Events[i] = &own
		}
	}

	return &c
}
