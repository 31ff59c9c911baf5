package taskfiles

import (
	"path"
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// driverExec is the driver whose tasks have a root of their own, in which they see the files of their
// directory at the same paths.
const driverExec = "exec"

// ownOfRoot are the directories of the root that show nothing of the task's directory.
var ownOfRoot = []string{"proc", "sys", "dev", "run"}

// firstInRoot returns the first name of a destination relative to the task's directory, "" if only the node
// knows it.
func firstInRoot(dest string) string {
	if strings.Contains(dest, structs.Placeholder) {
		return ""
	}

	// The directory ../alloc is alloc in the root of the task.
	clean := strings.TrimPrefix(path.Clean(dest), "../")
	first, _, _ := strings.Cut(clean, "/")
	return first
}

// checkInRoot checks that a task of the driver exec sees a destination.
func checkInRoot(f field.Errors, dest string) {
	first := firstInRoot(dest)
	f.Require(!slices.Contains(ownOfRoot, first),
		"destination %q: a task of the driver exec has a /%s of its own", dest, first)
}

// isTopFile reports whether the destination of a file is in no folder of the task's directory.
func isTopFile(dest string) bool {
	return firstInRoot(dest) == path.Clean(dest)
}
