package structs

// More types of task events: why a task is stopped that has not failed itself.
const (
	TaskEventRestartSignal = "Restart Signaled"
	TaskEventLeaderDead    = "Leader Task Dead"
	TaskEventSiblingFailed = "Sibling Task Failed"
	// the allocation's claim is gone: another allocation may use the volume now
	TaskEventLost = "Volume Lost"
)
