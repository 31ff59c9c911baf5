package raftfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"

	"berth/internal/files"
)

// spareName is the file that becomes the next segment.
const spareName = "next-segment"

// space makes the segment files for raft-wal (types.VFS), such that a full disk never stops the log for
// ever. raft-wal records a new segment before it makes the file of it, and cannot go on if the second step
// fails. So that step needs no space:
//
//   - Create renames a file that was made before, the spare. That needs no inode.
//   - A segment gets its blocks at its first write, all at once. raft-wal takes a write back that has failed,
//     and Raft repeats it.
//   - A write is rejected without a spare, because the next segment may follow it.
//   - The list of segments is in a file that has the space of one more: see metaStore.
type space struct {
	fs.FS // the real one, for all that needs no space
	dir   string
	size  int64 // of a segment

	mu    sync.Mutex
	spare *segmentWriter // nil: it could not be made yet
	tail  *segmentWriter // the last segment
	lack  error          // why the last write was rejected; nil: it was not
	want  int64          // the end of that write
}

// segmentWriter is a segment that is written to (types.WritableFile).
type segmentWriter struct {
	*os.File
	space *space
	fresh bool  // its name may not be durable yet
	end   int64 // the file has blocks up to it
	size  int64 // the file ends here, also after a failed allocation
	used  int64 // no byte behind it was written
}

// openSpace returns the files of a folder. Without a spare the first write makes it.
func openSpace(dir string, size int) (*space, error) {
	s := &space{dir: dir, size: int64(size)}
	err := s.makeSpare()
	if err != nil && !files.IsNoSpace(err) {
		return nil, err
	}
	return s, nil
}

// makeSpare makes the spare unless there is one. It has no blocks yet: see reserve.
func (s *space) makeSpare() error {
	if s.spare != nil {
		return nil
	}
	path := filepath.Join(s.dir, spareName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return s.fault(err, 0)
	}
	s.spare = &segmentWriter{File: f, space: s, fresh: true}
	return nil
}

// ensureSpare is makeSpare for a step that is no write.
func (s *space) ensureSpare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.makeSpare()
}

// Create makes a segment of the spare, and the next spare if it can (types.VFS).
func (s *space) Create(_, name string, _ uint64) (types.WritableFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.makeSpare()
	if err != nil {
		return nil, err
	}
	err = os.Rename(filepath.Join(s.dir, spareName), filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	s.tail = s.spare
	s.spare = nil
	s.want = 0

	// This is in the background of the log. The next write tries a failed step again.
	_ = s.allocate(s.tail, s.size)
	_ = s.makeSpare()
	return s.tail, nil
}

// OpenWriter opens the last segment at the start (types.VFS).
func (s *space) OpenWriter(_, name string) (types.WritableFile, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, name), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	w := &segmentWriter{File: f, space: s, fresh: true, size: st.Size, used: st.Size}
	if st.Blocks*512 >= st.Size {
		w.end = st.Size
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = w
	return w, nil
}

// WriteAt writes, or writes nothing and returns ENOSPC (types.WritableFile).
func (w *segmentWriter) WriteAt(b []byte, offset int64) (int, error) {
	end := offset + int64(len(b))
	err := w.space.admit(w, end)
	if err != nil {
		return 0, err
	}
	n, err := w.File.WriteAt(b, offset)
	if files.IsNoSpace(err) {
		w.space.shorten(w, offset, err)
	}
	return n, err
}

// shorten notes that a file has no blocks behind an offset although they were allocated: a file system that
// copies at each write, or that cannot allocate.
func (s *space) shorten(w *segmentWriter, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.end = min(w.end, offset)
	s.lack = s.fault(err, s.size)
}

// Sync makes the writes durable, and the first time the name of the file, too (types.WritableFile).
func (w *segmentWriter) Sync() error {
	err := w.File.Sync()
	if err == nil && w.fresh {
		err = files.SyncDurable(w.space.dir)
		w.fresh = err != nil
	}
	return err
}

// admit gets the space of a write up to an offset, and of the steps that may follow it.
func (s *space) admit(w *segmentWriter, end int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.prepare(w, max(end, s.size))
	if err == nil {
		w.used = max(w.used, end)
	}
	return err
}

// prepare gets the space up to an offset, and the next spare.
func (s *space) prepare(w *segmentWriter, end int64) error {
	s.want = end
	s.lack = s.allocate(w, end)
	if s.lack == nil {
		s.lack = s.makeSpare()
	}
	return s.lack
}

// takeSpace tries again what the last write lacked. It returns the reason why the next write would be
// rejected.
func (s *space) takeSpace() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := max(s.want, s.size)
	switch {
	case s.tail == nil: // the log is closed
		return nil
	case s.lack == nil && s.tail.end >= want:
		return nil
	}
	return s.prepare(s.tail, want)
}

// reserve gets the space of a new segment and of the end of the last one, which has so many entries.
// Without it, raft-wal and Raft could not go on after a failed truncation.
func (s *space) reserve(entries uint64) error {
	const perEntry, frames = 4, 64
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.makeSpare()
	if err == nil {
		err = s.allocate(s.spare, s.size)
	}
	if err == nil && s.tail != nil {
		err = s.allocate(s.tail, max(s.size, s.tail.used+int64(entries)*perEntry+frames))
	}
	return err
}

// allocate gives a file its blocks up to an offset.
func (s *space) allocate(w *segmentWriter, end int64) error {
	if end <= w.end {
		return nil
	}

	err := error(unix.ENOSPC)
	free, known := freeBytes(s.dir)
	if !known || free >= uint64(end-w.end) {
		err = fallocate(w.File, end)
	}
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		// A file system without this call gets its blocks while it is written.
	case err != nil:
		// Some file systems keep the part that they had. Others may need it more.
		err = s.fault(err, end-w.end)
		return errors.Join(err, w.Truncate(w.size))
	}
	w.end = end
	w.size = max(w.size, end)
	return nil
}

// fault returns an error of the disk, with its place and the space that is needed.
func (s *space) fault(err error, need int64) error {
	if !files.IsNoSpace(err) {
		return fmt.Errorf("%s: %w", s.dir, err)
	}
	free, known := freeBytes(s.dir)
	switch {
	case !known:
		return fmt.Errorf("%s: %w", s.dir, err)
	case need == 0:
		return fmt.Errorf("%s: the file system takes no more files (its inodes are used up): %w", s.dir, err)
	case errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%s: the log needs %s more: %w", s.dir, humanize.IBytes(uint64(need)), err)
	}
	return fmt.Errorf("%s: the log needs %s more, and the file system has %s free: %w",
		s.dir, humanize.IBytes(uint64(need)), humanize.IBytes(free), err)
}

// low returns an error if the next segment does not fit.
func (s *space) low() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, known := freeBytes(s.dir)
	if s.spare == nil || s.spare.end >= s.size || !known || free >= uint64(s.size) {
		return nil
	}
	return s.fault(unix.ENOSPC, s.size)
}

// close closes the spare. raft-wal closes the segments.
func (s *space) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail = nil
	if s.spare == nil {
		return nil
	}
	return s.spare.Close()
}

// freeBytes returns the free bytes of the file system of a folder that this process may use.
func freeBytes(dir string) (free uint64, known bool) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return files.FreeBytes(&st), err == nil
}

// fallocate gives a file blocks from its beginning to an offset, and makes it that long.
func fallocate(f *os.File, end int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, end)
		if err != unix.EINTR {
			return err
		}
	}
}
