package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/agentlog"
	"berth/internal/files"
	"berth/structs"
)

// file is a sink with a file. One goroutine at a time uses it.
type file struct{ *agentlog.Rotating }

func newFile(s Sink, now func() time.Time, warn func(error)) *file {
	mode, err := s.fileMode()
	if err != nil {
		panic(err) // Config.Validate has checked it
	}
	f := &file{&agentlog.Rotating{
		Path:     s.Path,
		Mode:     mode,
		Bytes:    int64(s.RotateBytes),
		Age:      s.RotateDuration,
		MaxFiles: s.RotateMaxFiles,
		Now:      now,
		MakeDir:  func() error { return makeDir(filepath.Dir(s.Path)) },
		Warn:     warn,
	}}
	f.Opened = f.take
	return f
}

// write appends lines, and returns after the disk has them. After an error the file has none of them, or it
// has them and the disk may not.
func (f *file) write(lines []byte) error {
	err := f.tryWrite(lines)

	// Somebody may have deleted the file meanwhile, and the lines with it.
	if err == nil && f.isDeleted() {
		err = f.tryWrite(lines)
	}

	// After a failed sync the kernel may take the lines for written. Only a file that is opened anew shows which
	// lines it has.
	if err != nil {
		f.close()
	}
	return err
}

func (f *file) tryWrite(lines []byte) error {
	err := f.Ready(len(lines))
	if err == nil {
		err = f.append(lines)
	}
	return err
}

func (f *file) append(lines []byte) error {
	before := f.Size
	err := f.Append(lines)
	if err == nil {
		err = f.File.Sync()
	}
	if err != nil {
		// A part of a line would spoil the next one. A full disk still takes this.
		f.Size = before
		return fmt.Errorf("%s: %w", f.Path, errors.Join(err, f.File.Truncate(before)))
	}
	return nil
}

// prepare opens the file.
func (f *file) prepare() error { return f.Ready(0) }

func (f *file) close() { f.Close() }

// isDeleted reports whether the open file has no name any more.
func (f *file) isDeleted() bool {
	var open unix.Stat_t
	return unix.Fstat(int(f.File.Fd()), &open) == nil && open.Nlink == 0
}

// take checks an opened file, ends a line that a crash has cut, and returns the time of the first line.
func (f *file) take(info os.FileInfo) (begun time.Time, err error) {
	is := info.Sys().(*syscall.Stat_t)
	switch {
	case int(is.Uid) != os.Geteuid():
		return begun, structs.Preconditionf("it belongs to user %d, and the agent runs as user %d: change the owner",
			is.Uid, os.Geteuid())
	case is.Nlink != 1:
		return begun, structs.Preconditionf("it has %d names; expected one: remove the other links", is.Nlink)
	}

	err = f.File.Chmod(f.Mode)
	if err != nil {
		return begun, err
	}

	begun = f.Now()
	if f.Size > 0 {
		begun, err = f.readEnds(begun)
	}
	if err == nil {
		err = files.SyncDurable(filepath.Dir(f.Path)) // the name of a new file
	}
	return begun, err
}

// readEnds reads the last byte, and the first line, whose time it returns if that is before now.
func (f *file) readEnds(now time.Time) (begun time.Time, err error) {
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.File.Fd()))
	if err != nil {
		return now, err
	}
	defer func() { _ = r.Close() }()

	head := make([]byte, min(f.Size, MaxLine))
	_, err = io.ReadFull(r, head)
	if err != nil {
		return now, err
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	var e Event
	begun = now
	if json.Unmarshal(first, &e) == nil && e.Time.Before(now) {
		begun = e.Time
	}

	last := make([]byte, 1)
	_, err = r.ReadAt(last, f.Size-1)
	if err == nil && last[0] != '\n' {
		err = f.append([]byte("\n"))
	}
	return begun, err
}
