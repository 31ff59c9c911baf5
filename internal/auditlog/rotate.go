package auditlog

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/durable"
)

// renamedAt is the time in the name of a renamed file: the names sort by it.
const renamedAt = "20060102T150405.000000000Z"

// rotate renames the file, and deletes the oldest renamed ones. A crash leaves the file under one of its two
// names, and the next start makes a new one.
func (f *file) rotate() error {
	at := f.now().UTC()
	for {
		err := unix.Renameat2(unix.AT_FDCWD, f.Path, unix.AT_FDCWD, f.renamed(at), unix.RENAME_NOREPLACE)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EEXIST) {
			return &os.PathError{Op: "rename", Path: f.Path, Err: err}
		}
		at = at.Add(1) // the clock was set back
	}

	err := durable.Sync(filepath.Dir(f.Path))
	if err == nil {
		err = f.prune()
	}
	if err != nil {
		f.warn("failed to delete old audit logs", err) // the next rotation tries again
	}
	return nil
}

// renamed returns the name of the file after its rotation at a time.
func (f *file) renamed(at time.Time) string {
	ext := filepath.Ext(f.Path)
	return strings.TrimSuffix(f.Path, ext) + "-" + at.Format(renamedAt) + ext
}

// prune deletes the oldest renamed files, and leaves the newest RotateMaxFiles.
func (f *file) prune() error {
	if f.RotateMaxFiles == 0 {
		return nil
	}

	dir := filepath.Dir(f.Path)
	entries, err := os.ReadDir(dir) // by name, and so the oldest first
	if err != nil {
		return err
	}

	ext := filepath.Ext(f.Path)
	base := strings.TrimSuffix(filepath.Base(f.Path), ext)
	const stamp = `-\d{8}T\d{6}\.\d{9}Z`
	pattern := regexp.MustCompile("^" + regexp.QuoteMeta(base) + stamp + regexp.QuoteMeta(ext) + "$")
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && pattern.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}

	var faults []error
	for len(names) > f.RotateMaxFiles {
		faults = append(faults, os.Remove(filepath.Join(dir, names[0])))
		names = names[1:]
	}
	return errors.Join(faults...)
}
