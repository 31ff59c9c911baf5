package structs

// More types of task events: why a task is stopped that has not failed itself.
const (
	TaskEventRestartSignal = "Restart Signaled"
	TaskEventLeaderDead    = "Leader Task Dead"
	TaskEventSiblingFailed = "Sibling Task Failed"
	TaskEventLost          = "Volume Lost" // the allocation's claim is gone: what it used may be another's now
)
