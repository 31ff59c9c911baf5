package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/files"
	"berth/structs"
)

// file is a sink with a file. One goroutine at a time uses it.
type file struct {
	Sink
	mode os.FileMode
	now  func() time.Time
	warn func(text string, err error)

	open  *os.File // nil: closed, or after a fault
	size  int64
	begun time.Time // of the oldest line in the file
}

func newFile(s Sink, now func() time.Time, warn func(string, error)) *file {
	mode, err := s.fileMode()
	if err != nil {
		panic(err) // Config.Validate has checked it
	}
	return &file{Sink: s, mode: mode, now: now, warn: warn}
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
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

func (f *file) tryWrite(lines []byte) error {
	err := f.ready(len(lines))
	if err != nil {
		return err
	}
	return f.append(lines)
}

func (f *file) append(lines []byte) error {
	n, err := f.open.Write(lines)
	if err == nil {
		err = f.open.Sync()
	}
	if err != nil {
		// A part of a line would spoil the next one. A full disk still takes this.
		return errors.Join(err, f.open.Truncate(f.size))
	}
	f.size += int64(n)
	return nil
}

// prepare opens the file.
func (f *file) prepare() error {
	err := f.ready(0)
	if err != nil {
		f.close()
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// ready opens the file unless the open one still has its path, and renames it if it is too old, or would be
// too large with more bytes.
func (f *file) ready(more int) error {
	if f.open != nil && !f.isAtPath() {
		f.close()
	}
	if f.open == nil {
		err := f.openFile()
		if err != nil {
			return err
		}
	}

	now := f.now()
	if f.size == 0 {
		f.begun = now // with the line that comes
		return nil
	}
	large := f.RotateBytes > 0 && f.size+int64(more) > int64(f.RotateBytes)
	old := now.Sub(f.begun) >= f.RotateDuration
	if !large && !old {
		return nil
	}

	err := f.rotate()
	if err != nil {
		// A file that is too large is better than no line.
		f.warn("failed to rotate an audit log", err)
		return nil
	}
	f.close()
	return f.openFile()
}

// isAtPath reports whether the open file is the one at the path.
func (f *file) isAtPath() bool {
	var at, open unix.Stat_t
	err := errors.Join(unix.Lstat(f.Path, &at), unix.Fstat(int(f.open.Fd()), &open))
	return err == nil && at.Dev == open.Dev && at.Ino == open.Ino
}

// isDeleted reports whether the open file has no name any more.
func (f *file) isDeleted() bool {
	var open unix.Stat_t
	return unix.Fstat(int(f.open.Fd()), &open) == nil && open.Nlink == 0
}

// openFile opens the file or makes it, with its directory. The caller closes it after an error.
func (f *file) openFile() error {
	dir := filepath.Dir(f.Path)
	err := makeDir(dir)
	if err != nil {
		return err
	}

	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(f.Path, flags, uint32(f.mode))
	if errors.Is(err, unix.ELOOP) {
		return structs.Preconditionf("it is a symbolic link; expected a plain file: remove the link")
	}
	if err != nil {
		return err
	}

	f.open = os.NewFile(uintptr(fd), f.Path)
	err = f.take()
	if err != nil {
		return err
	}
	return files.SyncDurable(dir) // the name of a new file
}

// take checks an opened file and ends a line that a crash has cut.
func (f *file) take() error {
	var is unix.Stat_t
	err := unix.Fstat(int(f.open.Fd()), &is)
	switch {
	case err != nil:
		return err
	case is.Mode&unix.S_IFMT != unix.S_IFREG:
		return structs.Preconditionf("it is no plain file: remove it, or set another path")
	case int(is.Uid) != os.Geteuid():
		return structs.Preconditionf("it belongs to user %d, and the agent runs as user %d: change the owner",
			is.Uid, os.Geteuid())
	case is.Nlink != 1:
		return structs.Preconditionf("it has %d names; expected one: remove the other links", is.Nlink)
	}

	err = f.open.Chmod(f.mode)
	if err != nil {
		return err
	}

	f.size = is.Size
	f.begun = f.now()
	if f.size == 0 {
		return nil
	}
	return f.readEnds()
}

// readEnds reads the first line, for the age of the file, and the last byte.
func (f *file) readEnds() error {
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.open.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()

	head := make([]byte, min(f.size, MaxLine))
	_, err = io.ReadFull(r, head)
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	var e Event
	if json.Unmarshal(first, &e) == nil && e.Time.Before(f.begun) {
		f.begun = e.Time
	}

	last := make([]byte, 1)
	_, err = r.ReadAt(last, f.size-1)
	if err == nil && last[0] != '\n' {
		err = f.append([]byte("\n"))
	}
	return err
}

func (f *file) close() {
	if f.open != nil {
		_ = f.open.Close() // each line that counts is on the disk
		f.open = nil
	}
}
