package allocdir

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"berth/internal/logfile"
	"berth/structs"
)

// The events of a file that is read, in the dialect's words.
const (
	Truncated = "file truncated" // also: another file has taken its place; its content follows from its start
	Deleted   = "file deleted"   // the reader ends
)

// poll is the interval at which a follower looks for more. A follower takes a file for deleted after misses
// such looks: a rotation renames a file before it makes the next one. Tests shorten poll.
var poll = 100 * time.Millisecond

const misses = 10

// Options select a file and the place from which it is read.
type Options struct {
	Path    string
	FromEnd bool  // Offset counts back from the end
	Offset  int64 // 0 or more bytes; beyond the file it is the file's end, or its start with FromEnd
	Lines   int   // if it is above 0: the number of last lines to begin with, in place of Offset
	Follow  bool  // wait at the end for more, until the file is deleted, ctx ends, or Ended
	// Ended is closed when nothing more is written. The reader then reads what there is. It may be nil.
	Ended <-chan struct{}
}

// Part is a part of a file, or an event.
type Part struct {
	Data   []byte
	Offset int64 // in the file, after Data
	Event  string
}

// Reader reads a file and, with Follow, the files that take its place. It follows a file by its path.
type Reader struct {
	ctx  context.Context
	dir  *Dir
	o    Options
	file *os.File
	at   int64

	missed int  // looks that did not find the file
	moved  bool // the file has been replaced or removed, and was not read to its end since
	done   bool
}

// Read opens a reader. See File for the errors. The caller closes it, and keeps d open until then.
func (d *Dir) Read(ctx context.Context, o Options) (*Reader, error) {
	f, err := d.File(o.Path)
	if err != nil {
		return nil, err
	}
	r := &Reader{ctx: ctx, dir: d, o: o, file: f}
	r.at, err = o.start(f)
	if err == nil {
		_, err = f.Seek(r.at, io.SeekStart)
	}
	if err != nil {
		closeRead(f)
		return nil, fileError(o.Path, err)
	}
	return r, nil
}

// start returns the offset at which a file is read first.
func (o Options) start(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := info.Size()
	switch {
	case o.Lines > 0:
		s := logfile.LineSearch{Lines: o.Lines, Budget: structs.MaxTailBytes}
		at, _, err := s.Back(f, size-1)
		return at, err
	case o.FromEnd:
		return max(0, size-o.Offset), nil
	}
	return min(o.Offset, size), nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Next returns the next part, with p as its memory. With Follow it waits for one. The error is io.EOF at the
// end, and when ctx ends.
func (r *Reader) Next(p []byte) (Part, error) {
	for {
		ended := !r.o.Follow || isClosed(r.o.Ended) // before the read: all that was written is read
		n, err := r.file.Read(p)
		if n > 0 {
			r.at += int64(n)
			return Part{Data: p[:n], Offset: r.at}, nil
		}

		if err != nil && !errors.Is(err, io.EOF) {
			return Part{}, fileError(r.o.Path, err)
		}

		if r.done || r.ctx.Err() != nil || !r.o.Follow {
			return Part{}, io.EOF
		}

		event, err := r.lookAgain()
		switch {
		case err != nil:
			return Part{}, err
		case event != "":
			return Part{Event: event, Offset: r.at}, nil
		case ended && !r.moved:
			return Part{}, io.EOF
		}

		r.wait()
	}
}

// wait waits for the next look.
func (r *Reader) wait() {
	select {
	case <-time.After(poll):
	case <-r.ctx.Done():
	}
}

// lookAgain finds out, at the end of the file, if the file was truncated, replaced or deleted.
func (r *Reader) lookAgain() (event string, err error) {
	old, err := r.file.Stat()
	if err != nil {
		return "", fileError(r.o.Path, err)
	}

	// The offset is behind the end, so the file was truncated and perhaps written anew.
	if old.Size() < r.at {
		r.at = 0
		_, err = r.file.Seek(0, io.SeekStart)
		return Truncated, err
	}

	found, err := r.dir.find(r.o.Path)
	if structs.IsKind(err, structs.KindNotFound) {
		return r.miss(), nil
	}
	if err != nil {
		return "", err
	}
	defer closeRead(found.File)

	// Only looks in a row count: a rotation lasts a moment.
	r.missed = 0
	now, err := found.Stat()
	if err != nil {
		return "", fileError(r.o.Path, err)
	}

	if os.SameFile(old, now) {
		r.moved = false
		return "", nil
	}

	if !r.moved { // its writer may have written more since the last read
		r.moved = true
		return "", nil
	}

	return r.replace()
}

// miss counts a look that has not found the file.
func (r *Reader) miss() (event string) {
	r.missed++
	r.moved = true
	if r.missed < misses {
		return ""
	}
	r.done = true
	return Deleted
}

// replace continues with the file that has the path now.
func (r *Reader) replace() (event string, err error) {
	f, err := r.dir.File(r.o.Path)
	if structs.IsKind(err, structs.KindNotFound) {
		return "", nil // the next look sees it
	}
	if err != nil {
		return "", err
	}
	closeRead(r.file)
	r.file = f
	r.at = 0
	r.moved = false
	return Truncated, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
