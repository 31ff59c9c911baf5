package structs

import (
	"path"
	"slices"
	"strings"
)

// A task of the driver exec has a root of its own, in which it sees the files of its directory at the same
// paths.

const driverExec = "exec"

var (
	// writableInRoot are the directories of the task and of its allocation that such a task has in its root.
	writableInRoot = []string{"local", "secrets", "tmp", "alloc"}
	// ownOfRoot are the directories of the root that show nothing of the task's directory.
	ownOfRoot = []string{"proc", "sys", "dev", "run"}
)

// firstInRoot returns the first name of a destination relative to the task's directory, "" if only the node
// knows it.
func firstInRoot(dest string) string {
	if strings.Contains(dest, placeholder) {
		return ""
	}
	clean := strings.TrimPrefix(path.Clean(dest), "../")
	first, _, _ := strings.Cut(clean, "/")
	return first
}

// checkInRoot checks that a task of the driver exec sees a destination.
func (f fieldErrors) checkInRoot(dest string) {
	first := firstInRoot(dest)
	f.require(!slices.Contains(ownOfRoot, first),
		"destination %q: a task of the driver exec has a /%s of its own", dest, first)
}

// isTopFile reports whether the destination of a file is in no folder of the task's directory.
func isTopFile(dest string) bool {
	return firstInRoot(dest) == path.Clean(dest)
}

// HasRootFiles reports whether a task of the driver exec has a template or an artifact whose destination is
// beside the directories that such a task always sees.
func (t *Task) HasRootFiles() bool {
	isOne := func(dest string) bool {
		first := firstInRoot(dest)
		return first != "" && !slices.Contains(writableInRoot, first)
	}
	return t.Driver == driverExec && (slices.ContainsFunc(t.Templates, func(x *Template) bool {
		return x != nil && !path.IsAbs(x.DestPath) && isOne(x.DestPath)
	}) || slices.ContainsFunc(t.Artifacts, func(a *TaskArtifact) bool {
		return a != nil && isOne(strings.TrimLeft(a.RelativeDest, "/"))
	}))
}
