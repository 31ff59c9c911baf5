package client

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/internal/files"
)

const (
	// spaceInterval is the time between two looks at the disk of the node.
	spaceInterval = time.Second
	// partsInterval is the time between two searches for what uses a full disk.
	partsInterval = time.Minute
)

// The bounds of a full disk. Between them it stays as it was, so that it is not told with each write. The
// records, logs and folders of the next tasks need more than the lower ones.
const (
	fullBelow  = 1 << 20
	spaceAbove = 4 << 20
	filesBelow = 16
	filesAbove = 64
)

// space tells what the disk of the node lacks.
type space struct {
	*node
	unready atomic.Pointer[error]  // why the disk does not take what precedes the first request
	full    atomic.Pointer[string] // what uses the disk of the node, while it is full
}

// awaitRecords waits until the disk has what it must have before the first request to the servers, which
// begin writes. A disk without space delays the node, and nothing else of the agent. It reports false if ctx
// ended first.
func (s *space) awaitRecords(ctx context.Context, begin func() error) bool {
	for waited := false; ; waited = true {
		err := begin()
		if err == nil {
			s.unready.Store(nil)
			if waited {
				s.logger.Info("the disk has taken the records of the node, going on")
			}
			return true
		}
		s.unready.Store(&err)
		if !waited {
			s.logger.Error("failed to store what a node needs before its first request, waiting for the disk",
				"error", err, "disk", files.DescribeDisk(ctx, s.config().DataDir))
		}
		if !backoff.Sleep(ctx, spaceInterval) {
			return false
		}
	}
}

// watch tells when the disk of the node is full, and when it has space again, until ctx ends.
func (s *space) watch(ctx context.Context) {
	var described time.Time
	for ; ; backoff.Sleep(ctx, spaceInterval) {
		dir := s.config().DataDir
		was := s.full.Load() != nil
		full := isFull(dir, was)
		switch {
		case ctx.Err() != nil:
			return
		case !full && was:
			s.full.Store(nil)
			s.logger.Info("the disk of the node has space again")
		case full && (!was || time.Since(described) > partsInterval):
			described = time.Now()
			text := files.DescribeDisk(ctx, dir)
			s.full.Store(&text)
			if !was {
				s.logger.Error("the disk of the node is full: tasks do not start, and running ones may fail",
					"disk", text)
			}
		}
	}
}

// isFull reports whether the file system of a folder is full. was is the last answer.
func isFull(dir string, was bool) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	if err != nil {
		return was
	}
	space := uint64(fullBelow)
	entries := uint64(filesBelow)
	if was {
		space = spaceAbove
		entries = filesAbove
	}
	// A file system without a table of files has 0 of 0.
	return files.FreeBytes(&st) < space || st.Files > 0 && st.Ffree < entries
}

// Lack returns what the node lacks on its disk, "" for nothing. A person reads it.
func (c *Client) Lack() string {
	unready := c.space.unready.Load()
	full := c.space.full.Load()
	switch {
	case unready != nil && full != nil:
		return "the node waits for space: " + (*unready).Error() + "; " + *full
	case unready != nil:
		return "the node waits for its disk: " + (*unready).Error()
	case full != nil:
		return "the disk of the node is full: " + *full
	}
	return ""
}
