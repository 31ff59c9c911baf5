package logfile

import (
	"fmt"
	"os"
	"sync"
)

// Config is where and how much a Rotator writes.
type Config struct {
	Dir         string
	Task        string
	Kind        string
	MaxFiles    int   // at least 1
	MaxFileSize int64 // bytes, at least 1
}

// Rotator is the writing end of one output of a task. Its Write never fails: what cannot be written (the
// disk is full, the directory is gone) is dropped and counted, and a note with the number of bytes is
// put in where the gap is as soon as writing works again. So a task is never held up by its log's disk.
// Safe for concurrent use.
type Rotator struct {
	cfg Config
	out output

	mu      sync.Mutex
	file    *os.File
	n       int   // number of the current file
	size    int64 // bytes in it
	dropped int64
	why     error // of the last drop
}

// NewRotator opens the newest file for appending, or makes the first one.
func NewRotator(cfg Config) (*Rotator, error) {
	cfg.MaxFiles = max(cfg.MaxFiles, 1)
	cfg.MaxFileSize = max(cfg.MaxFileSize, 1)
	r := &Rotator{cfg: cfg, out: output{cfg.Dir, cfg.Task, cfg.Kind}}
	ns, err := r.out.parts()
	if err != nil {
		return nil, err
	}
	if len(ns) > 0 {
		r.n = ns[len(ns)-1]
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	r.prune()
	return r, nil
}

// Write writes p over as many files as it needs and reports all of it as written.
func (r *Rotator) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note()
	for rest := p; len(rest) > 0; {
		n, err := r.put(rest)
		rest = rest[n:]
		if err != nil {
			r.dropped += int64(len(rest))
			r.why = err
			break
		}
	}
	return len(p), nil
}

// Dropped is how many bytes are lost and not yet noted in the log.
func (r *Rotator) Dropped() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// Close notes what was dropped, if that works now, and closes the file.
func (r *Rotator) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}

// note writes where bytes are missing, and how many. It says nothing while writing still fails.
func (r *Rotator) note() {
	if r.dropped == 0 {
		return
	}
	text := fmt.Sprintf("\n[berth: %d bytes of output were dropped here: %v]\n", r.dropped, r.why)
	if n, err := r.put([]byte(text)); err == nil && n > 0 {
		r.dropped, r.why = 0, nil
	}
}

// put writes what fits into the current file, after making the next one if it is full.
func (r *Rotator) put(p []byte) (int, error) {
	if r.file == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	if r.size >= r.cfg.MaxFileSize {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	if room := r.cfg.MaxFileSize - r.size; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := r.file.Write(p)
	r.size += int64(n)
	return n, err
}

func (r *Rotator) rotate() error {
	full := r.file
	r.n++
	if err := r.open(); err != nil {
		r.n--
		return err
	}
	_ = full.Close() // its bytes are written; it is only ever read from now on
	r.prune()
	return nil
}

func (r *Rotator) open() error {
	f, err := r.out.open(r.n, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	r.file, r.size = f, info.Size()
	return nil
}

// prune removes the oldest files beyond MaxFiles. One that cannot be removed is tried again next time.
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
