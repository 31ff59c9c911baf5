package raftfiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"berth/internal/files"
)

// NewSegment makes the next append to the log begin a new segment file. A segment file is deleted as a whole,
// once none of its entries is needed. It returns an error if the disk has no space for another segment.
func (l *Log) NewSegment() error {
	last, err := l.LastIndex()
	if err == nil {
		err = l.reserve(last)
	}
	if err == nil {
		l.newSegment.Store(true)
	}
	return err
}

// beginSegment makes the entry, which is the next one of the log, the first of a new segment. raft-wal begins
// a segment where the end of the log was cut off. So the entry is written, cut off, and then written again
// with its batch. It is not acknowledged before that, so a crash loses nothing.
func (l *Log) beginSegment(entry *raft.Log) error {
	last, err := l.LastIndex()
	if err != nil || last == 0 || entry.Index != last+1 {
		return err // an empty log has a new segment already
	}
	if l.reserve(entry.Index) != nil {
		return nil // the old segment takes it; NewSegment was for a server with more space
	}
	err = l.WAL.StoreLog(entry)
	if err != nil {
		return err
	}
	return l.WAL.DeleteRange(entry.Index, entry.Index)
}

// OldestEntry returns the index of the first entry whose bytes are in a segment file, needed or not. It is
// the next one for an empty log.
func (l *Log) OldestEntry() uint64 {
	segments := l.meta.state().Segments
	if len(segments) == 0 {
		return 0
	}
	return segments[0].BaseIndex
}

// KeepNewest deletes all snapshots but the newest one. It returns the index of that one, 0 for none.
func (f *Files) KeepNewest() (index uint64, err error) {
	s := f.Snapshots.(*snapshots)
	all, err := s.List()
	if err != nil || len(all) == 0 {
		return 0, err
	}

	// The list begins with the newest one. The others are deleted although snapshotsKept would keep one of
	// them.
	for _, old := range all[1:] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, old.ID)))
	}
	return all[0].Index, errors.Join(err, files.SyncDurable(s.dir))
}

// forgottenName is the file with the index up to which entries and snapshots were removed because they may
// have secrets in plain text.
const forgottenName = "secrets-removed"

// Forgotten returns the index of SetForgotten, 0 if there was none.
func Forgotten(dataDir string) (uint64, error) {
	path := filepath.Join(dataDir, forgottenName)
	b, err := readLimited(path, 64)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: it has no index", path)
	}
	return index, nil
}

// SetForgotten records durably that no file of the server has entries or snapshots up to the index.
func SetForgotten(dataDir string, index uint64) error {
	return files.WriteDurable(filepath.Join(dataDir, forgottenName), fmt.Appendln(nil, index))
}
