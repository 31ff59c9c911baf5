package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/structs"
)

const (
	followEvery    = 200 * time.Millisecond // how often a followed file is looked at
	heartbeatEvery = 10 * time.Second       // how often an idle stream shows that it lives
	frameSize      = 64 << 10
)

// logReader reads the rotated files <name>.0, <name>.1, ... of a directory as one stream. Files that are
// rotated away while it reads are read to their end first, if it has them open.
type logReader struct {
	dir    string
	name   string
	follow bool
	write  func(Frame) error
}

// logFile is one of the files.
type logFile struct {
	number int
	path   string
	size   int64
}

// files lists what is there, oldest first.
func (l *logReader) files() ([]logFile, error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, structs.Errorf(structs.KindInternal, "reading the logs: %w", err)
	}
	var files []logFile
	for _, e := range entries {
		tail, ok := strings.CutPrefix(e.Name(), l.name+".")
		n, err := strconv.Atoi(tail)
		if !ok || err != nil || n < 0 {
			continue
		}
		info, err := e.Info()
		if err != nil { // rotated away meanwhile
			continue
		}
		files = append(files, logFile{number: n, path: filepath.Join(l.dir, e.Name()), size: info.Size()})
	}
	slices.SortFunc(files, func(a, b logFile) int { return cmp.Compare(a.number, b.number) })
	return files, nil
}

// run streams from an offset counted from the start of the oldest file or back from the end of the newest.
func (l *logReader) run(ctx context.Context, origin string, offset int64) error {
	files, err := l.files()
	if err != nil {
		return err
	}
	if len(files) == 0 && !l.follow {
		return l.write(Frame{}) // nothing was logged yet
	}
	next, at := startAt(files, origin, offset)
	for {
		file, err := l.open(ctx, next)
		if err != nil || file == nil {
			return err
		}
		next, err = l.drain(ctx, file, at)
		_ = file.Close()
		if err != nil || next < 0 {
			return err
		}
		at = 0
	}
}

// startAt turns an offset over all files into a file's number and an offset in it.
func startAt(files []logFile, origin string, offset int64) (number int, at int64) {
	var total int64
	for _, f := range files {
		total += f.size
	}
	if origin == "end" {
		offset = max(total-offset, 0)
	}
	for i, f := range files {
		if offset <= f.size || i == len(files)-1 {
			return f.number, min(offset, f.size)
		}
		offset -= f.size
	}
	return 0, 0
}

// open opens the first file that is numbered from or higher, waiting for one when it follows. It returns
// nil when there is none to wait for.
func (l *logReader) open(ctx context.Context, from int) (*os.File, error) {
	idle := newIdler(l)
	for {
		files, err := l.files()
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.number < from {
				continue
			}
			file, err := os.Open(f.path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, structs.Errorf(structs.KindInternal, "reading the logs: %w", err)
			}
			return file, nil
		}
		if !l.follow {
			return nil, nil
		}
		if err := idle.wait(ctx); err != nil {
			return nil, ignoreCancel(err)
		}
	}
}

// drain streams a file from an offset to its end, and says which file comes after it: -1 for none.
func (l *logReader) drain(ctx context.Context, file *os.File, at int64) (next int, err error) {
	number, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(file.Name()), "."))
	base := filepath.Base(file.Name())
	idle := newIdler(l)
	buf := make([]byte, frameSize)
	for {
		rotated, err := l.hasAfter(number) // asked before reading: what is read then is the whole file
		if err != nil {
			return -1, err
		}
		for {
			n, err := file.ReadAt(buf, at)
			if n > 0 {
				at += int64(n)
				if werr := l.write(Frame{Offset: at, Data: buf[:n], File: base}); werr != nil {
					return -1, ignoreCancel(werr)
				}
				idle.reset()
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return -1, fmt.Errorf("reading the logs: %w", err)
			}
		}
		switch {
		case rotated:
			return number + 1, nil
		case !l.follow:
			return -1, nil
		}
		if err := idle.wait(ctx); err != nil {
			return -1, ignoreCancel(err)
		}
	}
}

func (l *logReader) hasAfter(number int) (bool, error) {
	files, err := l.files()
	return len(files) > 0 && files[len(files)-1].number > number, err
}

// idler paces a stream that has nothing to say.
type idler struct {
	l    *logReader
	last time.Time
}

func newIdler(l *logReader) *idler { return &idler{l: l, last: time.Now()} }

func (i *idler) reset() { i.last = time.Now() }

// wait waits a moment, and writes an empty frame when the last was long ago.
func (i *idler) wait(ctx context.Context) error {
	if time.Since(i.last) >= heartbeatEvery {
		i.reset()
		if err := i.l.write(Frame{}); err != nil {
			return err
		}
	}
	timer := time.NewTimer(followEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ignoreCancel drops the error of a client that has gone away: it was all it wanted.
func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
