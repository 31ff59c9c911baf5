package raftfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
)

// sumMark follows the checksum of an entry.
var sumMark = []byte{0xbe, 0x97, 0x83, 0xe5}

// sumSize is the size of a checksum with its mark, the end of an entry's extensions.
const sumSize = 8

// Log is the log of Raft and its stable store. Every entry has a checksum of all its fields in its
// extensions; the entries that Log takes and returns are without it.
type Log struct {
	*wal.WAL
	dataDir string
	meta    *metaStore
	mark    *mark
	space   *space
	// fatal ends the process; see Options.
	fatal   func(error)
	ends    sync.Mutex  // held while either end of the log changes
	serving atomic.Bool // Serve was called
	closed  atomic.Bool
	// newSegment makes the next append begin a segment file.
	newSegment atomic.Bool
	behind     *behind
}

// Serve records that Raft has started. From now on a damaged entry ends the process.
func (l *Log) Serve() {
	l.serving.Store(true)
}

// StoreLog appends an entry (raft.LogStore).
func (l *Log) StoreLog(entry *raft.Log) error {
	return l.StoreLogs([]*raft.Log{entry})
}

// StoreLogs appends entries (raft.LogStore). It rejects an entry that GetLog could not read: raft-wal writes
// it all the same. No server proposes one (structs.MaxEntry).
func (l *Log) StoreLogs(entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}

	// Raft keeps the entries in its cache and sends them to followers, so they are not changed.
	copies := make([]raft.Log, len(entries))
	summed := make([]*raft.Log, len(entries))
	for i, e := range entries {
		c := &copies[i]
		*c = *e
		c.Extensions = addSum(e)
		if size := recordSize(c); size > segment.MaxEntrySize {
			return fmt.Errorf("the log entry %d has %d bytes; the log's reader takes at most %d",
				e.Index, size, segment.MaxEntrySize)
		}

		summed[i] = c
	}

	l.ends.Lock()
	defer l.ends.Unlock()
	if l.newSegment.Swap(false) {
		err := l.beginSegment(summed[0])
		if err != nil {
			return err
		}
	}

	if err := l.WAL.StoreLogs(summed); err != nil {
		return l.broken(err)
	}

	for _, e := range summed {
		l.behind.add(int64(recordSize(e)))
	}

	// The mark follows the log. A crash between the two leaves a mark that is too low, which Open accepts.
	l.mark.raiseLast(entries[len(entries)-1].Index)
	return nil
}

// broken ends the process if the log cannot go on after an error. raft-wal then has a segment that is full
// and none behind it. The next start finishes the step that failed.
func (l *Log) broken(err error) error {
	if errors.Is(err, wal.ErrSealed) && l.serving.Load() && !l.closed.Load() && !l.meta.ends() {
		l.fatal(fmt.Errorf("%s: the log could not begin its next segment: %w", l.space.dir, err))
	}
	return err
}

// TakeSpace returns the reason why the log takes no entry, or why a change of the term waits. Without one it
// takes the next entry, unless that does not fit the disk. It tries again what failed for want of space.
func (l *Log) TakeSpace() error {
	return errors.Join(l.space.takeSpace(), l.meta.waits())
}

// LowSpace returns an error if the file system of the log has less than a segment of free space.
func (l *Log) LowSpace() error { return l.space.low() }

// StopWaiting makes changes fail that wait for space, because the server ends.
func (l *Log) StopWaiting() { l.meta.stopWaiting() }

// GetLog reads an entry (raft.LogStore). A damaged entry ends the process with a sentence that names the
// file: Raft would panic on the error, and a panic reads like a fault of the program.
func (l *Log) GetLog(index uint64, entry *raft.Log) error {
	err := l.readEntry(index, entry)
	if err == nil || err == raft.ErrLogNotFound || l.closed.Load() { // Raft compares it, too
		return err
	}
	path := l.meta.segmentOf(index)
	err = damageError(l.dataDir, path, "the log entry %d is damaged: %w", index, err)
	if l.serving.Load() {
		// Before Serve the error goes to the start of the server, which ends with it.
		l.fatal(err)
	}
	return err
}

// readEntry reads an entry and checks it. raft-wal panics on some damage.
func (l *Log) readEntry(index uint64, entry *raft.Log) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading the entry: %v", r)
		}
	}()
	if err := l.WAL.GetLog(index, entry); err != nil {
		return err
	}

	// A whole entry at the wrong place has a valid checksum.
	if entry.Index != index {
		return fmt.Errorf("the entry has index %d", entry.Index)
	}
	return removeSum(entry)
}

// DeleteRange removes entries at one end of the log (raft.LogStore).
func (l *Log) DeleteRange(first, last uint64) error {
	l.ends.Lock()
	defer l.ends.Unlock()
	end, err := l.LastIndex()
	if err != nil {
		return err
	}

	if last >= end { // at its end
		start, err := l.FirstIndex()
		if err != nil {
			return err
		}

		// raft-wal cannot go on if it lacks space from here on, and Raft cannot if the entries that replace
		// the old ones do not fit. None replaces the entries of a whole log.
		if first > start {
			err = l.reserve(end)
		} else {
			err = l.space.ensureSpare()
		}
		if err != nil {
			return err
		}

		left := first - 1
		if first <= start {
			left = 0
		}

		// Here the mark comes first. A crash between the two would otherwise leave a mark above the end of
		// the log, which looks like damage.
		if err := l.mark.lowerLast(left); err != nil {
			return err
		}
	}

	return l.WAL.DeleteRange(first, last)
}

// reserve gets the space to end the last segment, whose last entry is given, and to begin another.
func (l *Log) reserve(last uint64) error {
	segments := l.meta.state().Segments
	tail := segments[len(segments)-1]
	return l.space.reserve(last + 1 - min(tail.BaseIndex, last+1))
}

// Close closes the files. A read in progress then fails without ending the process.
func (l *Log) Close() error {
	l.closed.Store(true)
	return errors.Join(l.WAL.Close(), l.space.close(), l.mark.close())
}

// recordOverhead bounds the bytes that raft-wal adds to the data and the extensions of an entry: five
// numbers of at most 10 bytes, and a time of at most 16 with its length.
const recordOverhead = 128

// recordSize is an upper bound of the size of an entry in a segment.
func recordSize(e *raft.Log) int {
	return len(e.Data) + len(e.Extensions) + recordOverhead
}

// addSum returns the extensions of an entry with the checksum.
func addSum(e *raft.Log) []byte {
	b := make([]byte, 0, len(e.Extensions)+sumSize)
	b = append(b, e.Extensions...)
	b = binary.BigEndian.AppendUint32(b, entrySum(e))
	return append(b, sumMark...)
}

// removeSum removes the checksum from an entry and compares it.
func removeSum(e *raft.Log) error {
	n := len(e.Extensions) - sumSize
	if n < 0 || !bytes.HasSuffix(e.Extensions, sumMark) {
		return errors.New("the entry has no checksum")
	}
	sum := binary.BigEndian.Uint32(e.Extensions[n:])
	e.Extensions = e.Extensions[:n:n]
	if n == 0 {
		e.Extensions = nil
	}
	if entrySum(e) != sum {
		return errors.New("the entry's checksum does not match")
	}
	return nil
}

// entrySum returns the CRC-32 (Castagnoli) of all fields of an entry.
func entrySum(e *raft.Log) uint32 {
	// The lengths are in the sum, so that no byte can move from the data to the extensions.
	head := make([]byte, 0, 48)
	for _, v := range []uint64{
		e.Index,
		e.Term,
		uint64(e.Type),
		uint64(len(e.Data)),
		uint64(len(e.Extensions)),
		// The time is a field of the entry like the others: followers store the leader's.
		uint64(e.AppendedAt.UnixNano()),
	} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	sum := crc32.Update(checksum(head), castagnoli, e.Data)
	return crc32.Update(sum, castagnoli, e.Extensions)
}
