package agentlog

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// renamedAt is the time in the name of a renamed file: the names sort by it.
const renamedAt = "20060102T150405.000000000Z"

// RotateFile renames a file to the name for a time, or, if another file has that, for a later one. The error
// is an *os.PathError.
func RotateFile(path string, at time.Time) error {
	ext := filepath.Ext(path)
	for at = at.UTC(); ; at = at.Add(1) { // the clock may have been set back
		to := strings.TrimSuffix(path, ext) + "-" + at.Format(renamedAt) + ext
		err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EEXIST):
			return &os.PathError{Op: "rename", Path: path, Err: err}
		}
	}
}

// RotatedFiles returns the paths of the renamed files of a file, the oldest first.
func RotatedFiles(path string) (paths []string, err error) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir) // by name, and so the oldest first
	if err != nil {
		return nil, err
	}

	ext := filepath.Ext(path)
	base := strings.TrimSuffix(filepath.Base(path), ext)
	const stamp = `-\d{8}T\d{6}\.\d{9}Z`
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(base) + stamp + regexp.QuoteMeta(ext) + "$")
	for _, e := range entries {
		if e.Type().IsRegular() && pattern.MatchString(e.Name()) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

// PruneRotated deletes the oldest renamed files of a file, and leaves the newest most of them.
func PruneRotated(path string, most int) error {
	renamed, err := RotatedFiles(path)
	faults := []error{err}
	for _, old := range renamed[:max(len(renamed)-most, 0)] {
		faults = append(faults, os.Remove(old))
	}
	return errors.Join(faults...)
}
