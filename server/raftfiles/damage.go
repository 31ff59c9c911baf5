package raftfiles

import (
	"berth/internal/files"
	"berth/structs"
)

// damageError returns the error of a file of the server that cannot be trusted. It names the file first, then
// the fault, then the way out. An error of the machine, such as a full disk, is no damage.
func damageError(dataDir, path, format string, args ...any) error {
	fault := structs.Internalf(format, args...)

	// The remedy for damage would delete files that are whole.
	if files.IsMachineFault(fault) {
		return structs.Internalf("%s: the file cannot be used: %w", path, fault)
	}
	return structs.Internalf("%s: %w. The server does not use this state. "+
		"If the other servers have a majority, stop this one, remove %s and start it again: "+
		"it joins as a replacement. Otherwise start it on an empty directory and restore a backup "+
		"(see Damaged files in docs/operations/troubleshoot.md)", path, fault, dataDir)
}

// remedyError returns the error of a file with a remedy that loses nothing.
func remedyError(path, fault, remedy string) error {
	return structs.Internalf("%s: %s. %s (see Damaged files in docs/operations/troubleshoot.md)",
		path, fault, remedy)
}
