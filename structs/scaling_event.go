package structs

import "slices"

const (
	// MaxScalingEvents is the number of events that the servers keep of each group.
	MaxScalingEvents = 20
	// MaxScalingMessage bounds the message of an event, in bytes.
	MaxScalingMessage = 1000
	// MaxScalingMeta bounds the metadata of an event, in bytes of JSON.
	MaxScalingMeta = 4000
)

// ScalingEvent is a change of the count of a group by a request to scale it, or what an autoscaler tells
// about the group.
type ScalingEvent struct {
	Time          int64 // UnixNano
	PreviousCount int64
	Count         *int64 // nil: it has not changed
	Error         bool   // the autoscaler could not decide
	Message       string
	Meta          map[string]any // the autoscaler's own
	EvalID        *string        // the evaluation of the change
	CreateIndex   uint64
}

// GroupScalingEvent is an event of a group.
type GroupScalingEvent struct {
	Group string
	Event *ScalingEvent
}

// ScalingEvents is the row with the events of a group, the newest first.
type ScalingEvents struct {
	Namespace string
	JobID     string
	Group     string
	Events    []*ScalingEvent
	Indexes
}

// With returns a copy of the row with one more event. It leaves out the oldest beyond MaxScalingEvents.
func (s *ScalingEvents) With(e *ScalingEvent) *ScalingEvents {
	c := *s
	c.Events = slices.Insert(slices.Clone(s.Events), 0, e)
	c.Events = c.Events[:min(len(c.Events), MaxScalingEvents)]
	return &c
}

// JobScalingEventRequest stores an event without a change.
type JobScalingEventRequest struct {
	JobID string
	GroupScalingEvent
	WriteOptions
}
