package raftfiles

import (
	"github.com/hashicorp/raft-wal/segment"

	"berth/internal/diskfault"
	"berth/structs"
)

// damageError returns the error of a file of the server that cannot be trusted. It names the file first, then
// the fault, then the way out. An error of the machine, such as a full disk, is no damage.
func damageError(dataDir, path, format string, args ...any) error {
	fault := structs.Internalf(format, args...)
	if diskfault.OfMachine(fault) {
		return structs.Internalf("%s: the file cannot be used: %w", path, fault)
	}
	return structs.Internalf("%s: %w. The server does not use this state. "+
		"If the other servers have a majority, stop this one, remove %s and start it again: "+
		"it joins as a replacement. Otherwise start it on an empty directory and restore a backup "+
		"(see Damaged files in docs/operations/troubleshoot.md)", path, fault, dataDir)
}

// oversizedError returns the error of an entry that is whole and that raft-wal does not read, because it is
// too large. Versions before structs.MaxEntry could write one.
func oversizedError(dataDir, path string, index uint64, size int) error {
	return structs.Internalf("%s: the log entry %d has %d bytes, and the log's reader takes "+
		"at most %d. No file is damaged: an older version wrote this entry. Every server that has it stops at it. "+
		"If the other servers run and have a majority, stop this one, move %s away and start it again: "+
		"it joins as a replacement. Otherwise start it on an empty directory and restore a backup. "+
		"Keep the old directory (see An entry that is too large in docs/operations/troubleshoot.md)",
		path, index, size, segment.MaxEntrySize, dataDir)
}

// remedyError returns the error of a file with a remedy that loses nothing.
func remedyError(path, fault, remedy string) error {
	return structs.Internalf("%s: %s. %s (see Damaged files in docs/operations/troubleshoot.md)",
		path, fault, remedy)
}
