package logfile

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Config names the output of a Rotator and bounds its files.
type Config struct {
	Dir         string
	Task        string
	Kind        string
	MaxFiles    int   // at least 1
	MaxFileSize int64 // bytes, at least 1
}

// Rotator writes one output of a task. Write never fails, so that a full disk does not block the task. It
// drops the bytes that it cannot write and counts them. When writing works again, it first writes a note with
// their number. A Rotator is safe for concurrent use.
type Rotator struct {
	cfg Config
	out output

	// It guards the fields below. A write holds it, so the lines of two writers do not mix within a call.
	mu      sync.Mutex
	file    *os.File
	n       int // number of the current file
	id      fileID
	size    int64 // bytes in it
	dropped int64
	cause   error // of the last drop
}

// fileID tells a file from others.
type fileID struct{ dev, ino uint64 }

// idOf identifies a file also after it was renamed.
func idOf(st *unix.Stat_t) fileID {
	return fileID{st.Dev, st.Ino}
}

// NewRotator opens the newest file for appending, or creates the first one.
func NewRotator(cfg Config) (*Rotator, error) {
	cfg.MaxFiles = max(cfg.MaxFiles, 1)
	cfg.MaxFileSize = max(cfg.MaxFileSize, 1)
	r := &Rotator{
		cfg: cfg,
		out: output{cfg.Dir, cfg.Task, cfg.Kind},
	}
	ns, err := r.out.parts()
	if err != nil && !isGone(err) {
		return nil, err
	}

	// The output goes on in the file of the writer before, for example after a restart of the agent.
	if len(ns) > 0 {
		r.n = ns[len(ns)-1]
	}

	if err := r.openFile(); err != nil {
		return nil, err
	}

	r.prune()
	return r, nil
}

// Write distributes p over as many files as it needs and reports all of p as written.
func (r *Rotator) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteDrops()
	for rest := p; len(rest) > 0; {
		n, err := r.writePart(rest)
		rest = rest[n:]
		if err != nil {
			r.dropped += int64(len(rest))
			r.cause = err
			break
		}
	}
	return len(p), nil
}

// Close writes a note about dropped bytes, if writing works, and closes the file.
func (r *Rotator) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.noteDrops()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// noteDrops writes the number of the bytes that are missing here. It keeps the number while writing fails.
func (r *Rotator) noteDrops() {
	if r.dropped == 0 {
		return
	}
	text := fmt.Sprintf("\n[berth: %d bytes of output were dropped here: %v]\n",
		r.dropped, r.cause)
	n, err := r.writePart([]byte(text))
	if err == nil && n > 0 {
		r.dropped = 0
		r.cause = nil
	}
}

// writePart writes the part of p that fits into the current file. It first rotates if that file is full, or
// if its readers would not find it.
func (r *Rotator) writePart(p []byte) (int, error) {
	if r.file == nil {
		err := r.openFile()
		if err != nil {
			return 0, err
		}
	}

	if r.size >= r.cfg.MaxFileSize || r.isLost() {
		err := r.rotate()
		if err != nil {
			return 0, err
		}
	}

	free := max(0, r.cfg.MaxFileSize-r.size) // the task may have put a large file there
	p = p[:min(int64(len(p)), free)]
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

// isLost reports whether the task has moved or removed the current file or its directory.
func (r *Rotator) isLost() bool {
	st, err := r.out.stat(r.n)
	if err != nil {
		return isGone(err)
	}
	return idOf(&st) != r.id
}

// rotate continues with the next file. Its number is new also after a loss: a reader of the lost file then
// finds the next one.
func (r *Rotator) rotate() error {
	full := r.file
	r.n++
	if err := r.openFile(); err != nil {
		// The next write tries the same number again, so the numbers have no gap.
		r.n--
		return err
	}
	_ = full.Close() // an error loses nothing: its bytes are written
	r.prune()
	return nil
}

// openFile opens the file of the current number, which may exist, at its end.
func (r *Rotator) openFile() error {
	f, err := r.out.openPart(r.n, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err != nil {
		closeRead(f)
		return err
	}
	r.file = f
	r.id = idOf(&st)
	r.size = st.Size
	return nil
}

// prune removes the oldest files beyond MaxFiles. The next rotation tries again if this fails.
func (r *Rotator) prune() {
	ns, err := r.out.parts()
	if err != nil {
		return
	}
	for len(ns) > r.cfg.MaxFiles {
		r.out.remove(ns[0])
		ns = ns[1:]
	}
}
