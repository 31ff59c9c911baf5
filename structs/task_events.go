package structs

// More types of task events: the reasons for which a task without a failure of its own is stopped.
const (
	TaskEventRestartSignal = "Restart Signaled"
	TaskEventLeaderDead    = "Leader Task Dead"
	TaskEventSiblingFailed = "Sibling Task Failed"
	// the allocation's claim is gone: another allocation may use the volume now
	TaskEventLost = "Volume Lost"
)
