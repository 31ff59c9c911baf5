package agentlog

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// Rotating is a file of lines that is renamed when it is full or old, with its renamed files. One goroutine
// at a time uses it.
type Rotating struct {
	Path     string
	Mode     os.FileMode
	Bytes    int64         // 0: no bound
	Age      time.Duration // of the first line
	MaxFiles int           // renamed files; 0 keeps all, -1 keeps none
	Now      func() time.Time
	// MakeDir makes the directory before the file is opened; nil: it is there.
	MakeDir func() error
	// Opened checks the file that was opened, and returns the time of its first line.
	Opened func(info os.FileInfo) (time.Time, error)
	// Warn takes the fault of a rotation. The next one tries again.
	Warn func(err error)

	File  *os.File // nil: closed, or after a fault
	Size  int64
	begun time.Time // of the first line
}

// Ready opens the file unless the open one still has its path, and renames it if it is too old, or would be
// too large with more bytes. After an error the file is closed.
func (r *Rotating) Ready(more int) error {
	if r.File != nil && !r.isAtPath() {
		r.Close() // an operator, or a program of theirs, has renamed the file
	}
	if r.File == nil {
		err := r.open()
		if err != nil {
			return err
		}
	}
	if !r.isDue(more) {
		return nil
	}

	err := RotateFile(r.Path, r.Now())
	if err != nil {
		r.Warn(err) // a file that is too large is better than no line
		return nil
	}
	r.Close()
	err = r.open()
	if r.MaxFiles != 0 {
		fault := PruneRotated(r.Path, max(r.MaxFiles, 0))
		if fault != nil {
			r.Warn(fault)
		}
	}
	return err
}

// isDue reports whether the file is to be renamed before more bytes.
func (r *Rotating) isDue(more int) bool {
	if r.Size == 0 {
		r.begun = r.Now() // with the line that comes
		return false
	}
	large := r.Bytes > 0 && r.Size+int64(more) > r.Bytes
	return large || r.Now().Sub(r.begun) >= r.Age
}

// isAtPath reports whether the open file is the one at the path.
func (r *Rotating) isAtPath() bool {
	at, err := os.Lstat(r.Path)
	if err != nil {
		return false
	}
	open, err := r.File.Stat()
	return err == nil && os.SameFile(at, open)
}

// open opens the file for appending or makes it. It follows no link, and waits for no reader of a pipe.
func (r *Rotating) open() error {
	err := r.tryOpen()
	if err != nil {
		r.Close()
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	return nil
}

func (r *Rotating) tryOpen() error {
	if r.MakeDir != nil {
		err := r.MakeDir()
		if err != nil {
			return err
		}
	}
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(r.Path, flags, uint32(r.Mode))
	if errors.Is(err, unix.ELOOP) {
		return structs.Preconditionf("it is a symbolic link; expected a plain file: remove the link")
	}
	if err != nil {
		return err
	}

	r.File = os.NewFile(uintptr(fd), r.Path)
	info, err := r.File.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return structs.Preconditionf("it is no plain file: remove it, or set another path")
	}
	r.Size = info.Size()
	r.begun, err = r.Opened(info)
	return err
}

// Append writes lines. Ready comes before it.
func (r *Rotating) Append(lines []byte) error {
	n, err := r.File.Write(lines)
	r.Size += int64(n)
	return err
}

// Close closes the file, if it is open.
func (r *Rotating) Close() {
	if r.File != nil {
		_ = r.File.Close() // there is no better place for the fault than the log
		r.File = nil
	}
}
