package cluster

// ArchiveState tells how the archives of the state are. The leader shows it among the facts of its agent.
type ArchiveState string

// ArchiveStateKey is the key of the ArchiveState in these facts.
const ArchiveStateKey = "state"

// The states of the archives.
const (
	ArchivesOK      ArchiveState = "ok"
	ArchivesFailing ArchiveState = "failing" // the last attempt failed
	ArchivesOverdue ArchiveState = "overdue" // two periods have passed without an archive
	ArchivesOff     ArchiveState = "off"     // the settings want none
	ArchivesIdle    ArchiveState = "idle: the leader saves the archives"
)
