package structs

// More types of task events: first the reasons for which a task without a failure of its own is stopped.
const (
	TaskEventRestartSignal = "Restart Signaled"
	TaskEventLeaderDead    = "Leader Task Dead"
	TaskEventSiblingFailed = "Sibling Task Failed"
	TaskEventMainDead      = "Main Tasks Dead" // the event of a sidecar
	// the allocation's claim is gone: another allocation may use the volume now
	TaskEventLost = "Volume Lost"
	// the lease of the node ended, and the allocation must not run without one
	TaskEventLeaseEnded = "Lease Ended"
	// the allocation has been on its node for the max_run_duration of its group
	TaskEventMaxRunDuration = "Max Run Duration Exceeded"
	// a signal is being sent to the task, which is not for its end
	TaskEventSignaling = "Signaling"
	// a template: it waits for a value, could not be rendered, or ran its script
	TaskEventTemplate = "Template"
	TaskEventVolume   = "Volume Health" // a mount or a volume of the task is ill, or well again
)
