package logfile

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"berth/structs"
)

// The origins from which an offset counts.
const (
	FromStart = "start"
	FromEnd   = "end"
)

// poll is the interval at which a follower looks for more output. Tests shorten it.
var poll = 100 * time.Millisecond

// Options select the output to read. The caller checks them.
type Options struct {
	Dir    string
	Task   string
	Kind   string // Stdout or Stderr
	Origin string // FromStart (also "") or FromEnd
	Offset int64  // 0 or more bytes after the start of the oldest file, or before the end of the newest
	Lines  int    // if it is above 0: the number of last lines to begin with, in place of Offset
	Follow bool   // wait at the end for more output until the context ends
	// Ended is closed when nothing more is written: then a follower reads what there is. It may be nil.
	Ended <-chan struct{}
}

// Open opens a task's output as one stream over all its files. With Follow the stream continues over
// rotations and ends (io.EOF) with ctx, or after Ended. Without Follow it ends at the current end. An output
// without files is empty. The error is not-found if the task has put something else in the place of the
// directory. A reader skips the files that the writer has removed before it reads them. The caller must not
// call Close while Read runs. Read returns when ctx ends.
func Open(ctx context.Context, o Options) (io.ReadCloser, error) {
	r := &reader{
		ctx: ctx,
		o:   o,
		out: output{o.Dir, o.Task, o.Kind},
		n:   -1,
	}
	ns, err := r.out.parts()
	if err != nil {
		return nil, err
	}
	if err := r.seek(ns); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// reader is a stream over the files of an output. It finds a file again by its number.
type reader struct {
	ctx  context.Context
	o    Options
	out  output
	n    int // number of the file being read, -1 before the first
	file *os.File
}

// seek opens the file in which the stream begins.
func (r *reader) seek(ns []int) error {
	sizes := make([]int64, len(ns))
	var total int64
	for i, n := range ns {
		st, err := r.out.stat(n)
		if err == nil {
			sizes[i] = st.Size
		}

		total += sizes[i]
	}

	skip := min(r.o.Offset, total)
	if r.o.Origin == FromEnd {
		skip = total - skip
	}

	if r.o.Lines > 0 {
		var err error
		skip, err = r.findLines(ns, sizes)
		if err != nil {
			return err
		}
	}

	for i, n := range ns {
		last := i == len(ns)-1
		// At the end of a file that is not the last one the stream begins in the next.
		if skip > sizes[i] ||
			skip == sizes[i] && !last {
			skip -= sizes[i]
			continue
		}

		err := r.openPart(n)
		if isGone(err) {
			skip = 0 // the writer has just removed the file, so the stream begins with the next one
			continue
		}
		if err != nil {
			return err
		}

		_, err = r.file.Seek(skip, io.SeekStart)
		return err
	}

	return nil
}

// findLines returns the offset of the last lines, from the start of the oldest file.
func (r *reader) findLines(ns []int, sizes []int64) (int64, error) {
	s := LineSearch{Lines: r.o.Lines, Budget: structs.MaxTailBytes}
	var earlier int64 // bytes of the files before the one that is searched
	for _, size := range sizes {
		earlier += size
	}

	newest := true // of the files with text
	for i := len(ns) - 1; i >= 0; i-- {
		size := sizes[i]
		earlier -= size
		if size == 0 {
			continue
		}

		if newest {
			newest = false
			size-- // see LineSearch
		}

		at, done, err := r.searchPart(&s, ns[i], size)
		if isGone(err) { // the writer has just removed it, and so all before it
			return earlier + sizes[i], nil
		}

		if err != nil || done {
			return earlier + at, err
		}
	}

	return 0, nil
}

// searchPart searches the first bytes of a part.
func (r *reader) searchPart(s *LineSearch, n int, size int64) (at int64, done bool, err error) {
	f, err := r.out.openPart(n, os.O_RDONLY)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	return s.Back(f, size)
}

// Read returns the next bytes. With Follow it waits for them.
func (r *reader) Read(p []byte) (int, error) {
	for len(p) > 0 {
		ended := !r.o.Follow || isClosed(r.o.Ended) // before the read: all that was written is read
		n, err := r.readAvailable(p)
		if n > 0 || err != nil {
			return n, err
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-r.ctx.Done():
			return 0, io.EOF
		case <-time.After(poll):
		}
	}
	return 0, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// readAvailable reads without waiting. It returns 0 and no error at the current end.
func (r *reader) readAvailable(p []byte) (int, error) {
	for {
		// If there is a next file before the read, the writer has completed the file that is read.
		next, err := r.nextPart()
		if err != nil {
			return 0, err
		}

		if r.file != nil {
			n, err := r.file.Read(p)
			if n > 0 ||
				err != nil && !errors.Is(err, io.EOF) {
				return n, err
			}
		}

		if next < 0 {
			return 0, nil
		}

		// A file that was removed meanwhile is skipped: the writer has made more than it keeps.
		err = r.openPart(next)
		if err != nil && !isGone(err) {
			return 0, err
		}

		r.n = next
	}
}

// nextPart returns the number of the oldest file after the current one, or -1 if there is none.
func (r *reader) nextPart() (int, error) {
	if r.file != nil { // the usual case, without a listing of the directory
		if r.out.exists(r.n + 1) {
			return r.n + 1, nil
		}

		if r.out.exists(r.n) {
			return -1, nil
		}
	}

	ns, err := r.out.parts()
	if errors.Is(err, errReplaced) {
		return -1, nil // the writer makes the directory again
	}

	for _, n := range ns {
		if n > r.n {
			return n, nil
		}
	}

	return -1, err
}

// openPart continues with part n. After an error the current file stays open.
func (r *reader) openPart(n int) error {
	f, err := r.out.openPart(n, os.O_RDONLY)
	if err != nil {
		return err
	}
	_ = r.Close()
	r.file = f
	r.n = n
	return nil
}

// Close closes the file being read.
func (r *reader) Close() error {
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
