package raftfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// The format of a segment file of raft-wal, version 0. The file begins with a header. Frames follow it, each
// padded to 8 bytes. A commit frame has the checksum of everything since the commit frame before it. Behind
// the last commit are zeros up to the size that was allocated, or the rest of a write that a power cut
// interrupted.
const (
	segmentHeader = 32 // raft-wal compares it with the list of segments
	frameHeader   = 8
	frameEntry    = 1
	frameIndex    = 2
	frameCommit   = 3
	// segmentLimit bounds the size of a segment: a full one has 64 MiB and the rest of one write.
	segmentLimit = 1 << 30
)

// segmentContent is the content of a segment up to the last complete commit.
type segmentContent struct {
	offsets    []uint32 // of the entries' frames
	indexStart uint64   // offset of the table of offsets, 0 unless the segment is sealed
	end        int      // offset behind the last commit, 0 without one
}

// scanSegment reads a segment from its beginning and stops behind the last commit whose checksum matches.
func scanSegment(b []byte) segmentContent {
	var whole, read segmentContent
	start := 0
	for off := segmentHeader; off+frameHeader <= len(b); {
		kind := binary.LittleEndian.Uint32(b[off:]) // the kind of a frame and three bytes that are 0
		value := binary.LittleEndian.Uint32(b[off+4:])

		// For a commit the value is a checksum and no length: see below.
		size := (int(value) + 7) &^ 7
		switch kind {
		case frameCommit:
			if checksum(b[start:off]) != value {
				return whole
			}

			size = 0
			start = off + frameHeader
			read.end = start

			// What was read since the last commit counts only now.
			whole = read

		case frameEntry:
			read.offsets = append(read.offsets, uint32(off))
		case frameIndex:
			read.indexStart = uint64(off + frameHeader)
		// Zeros, or the rest of an older write: the segment ends here.
		default:
			return whole
		}

		off += frameHeader + size
	}

	return whole
}

// checkSealed compares a sealed segment with the list of segments.
func checkSealed(b []byte, c segmentContent, info types.SegmentInfo) error {
	if c.indexStart == 0 || c.indexStart != info.IndexStart ||
		info.MaxIndex < info.BaseIndex ||
		uint64(len(c.offsets)) <= info.MaxIndex-info.BaseIndex {
		last := info.BaseIndex + uint64(len(c.offsets)) - 1
		return fmt.Errorf("the entries behind index %d (byte %d) are not as they were written", last, c.end)
	}

	// raft-wal finds entries by this table alone, so it must agree with the frames.
	for i, offset := range c.offsets {
		at := c.indexStart + 4*uint64(i)
		if at+4 > uint64(c.end) ||
			binary.LittleEndian.Uint32(b[at:]) != offset {
			return errors.New("the offsets in the segment's index differ from the entries")
		}
	}
	return nil
}

// segmentFile is a segment with its content.
type segmentFile struct {
	segmentContent
	info   types.SegmentInfo
	path   string
	b      []byte
	before uint64 // the last entry of the segments before it
}

// isTail reports whether the segment is written to. The others are sealed.
func (f *segmentFile) isTail() bool { return f.info.SealTime.IsZero() }

// last returns the index of the last entry up to the end of the segment.
func (f *segmentFile) last() uint64 {
	switch {
	case !f.isTail():
		return f.info.MaxIndex
	case len(f.offsets) > 0:
		return f.info.BaseIndex + uint64(len(f.offsets)) - 1
	}
	return f.before
}

// readSegments reads and checks all segments, also those whose entries are not needed. It calls visit with
// each one, in their order. It returns the index of the last entry, 0 for an empty log, and changes no file.
func (o *opening) readSegments(visit func(*segmentFile) error) (last uint64, err error) {
	segments := o.meta.state().Segments
	for i, info := range segments {
		name := segment.FileName(info)
		f := &segmentFile{info: info, path: filepath.Join(o.walDir, name), before: last}
		isLast := i == len(segments)-1

		// Exactly the last segment is open, and each begins behind the one before it.
		if f.isTail() != isLast ||
			i > 0 && info.BaseIndex != last+1 {
			return 0, o.damage(o.meta.path, "the list of segments has a hole before %s", name)
		}

		f.b, err = readWritten(f.path, segmentLimit)
		switch {
		case f.isTail() &&
			errors.Is(err, os.ErrNotExist) &&
			o.mark.last < info.BaseIndex:
			return last, nil // it was about to be made
		case err != nil:
			return 0, o.damage(f.path, "reading a segment of the log: %w", err)
		}

		f.segmentContent = scanSegment(f.b)
		if !f.isTail() {
			err = checkSealed(f.b, f.segmentContent, info)
		}
		if err != nil {
			return 0, o.damage(f.path, "the segment is damaged: %w", err)
		}

		last = f.last()
		err = visit(f)
		if err != nil {
			return 0, err
		}
	}
	return last, nil
}

// checkLog reads all segments, drops an interrupted write, and completes a full segment. It returns the index
// of the last entry, 0 for an empty log, and the sizes of the segments that have entries.
func (o *opening) checkLog() (last uint64, sizes []segmentSize, err error) {
	last, err = o.readSegments(func(f *segmentFile) error {
		if len(f.offsets) > 0 {
			sizes = append(sizes, segmentSize{
				first: f.info.BaseIndex,
				last:  f.last(),
				bytes: int64(f.end),
			})
		}
		if f.isTail() {
			return o.checkTail(f)
		}
		return nil
	})
	return last, sizes, err
}

// checkTail checks the segment that is written to.
func (o *opening) checkTail(f *segmentFile) error {
	if f.last() < o.mark.last {
		return o.damage(f.path, "the entries behind index %d (byte %d) are not as they were written; "+
			"according to %s the log had entries up to %d", f.last(), f.end, markName, o.mark.last)
	}

	rest := bytes.TrimRight(f.b[f.end:], "\x00")

	// A write that was not committed was not acknowledged. It is erased, so that nothing of it follows the
	// next write.
	if len(rest) > 0 {
		o.Logger.Warn("dropping an interrupted write at the end of the log",
			"path", f.path,
			"offset", f.end,
			"bytes", len(rest))
		err := eraseBytes(f.path, f.end, len(rest))
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}

	if f.indexStart == 0 {
		return nil
	}

	return o.sealTail(f.segmentContent, f.last())
}

// sealTail records that the last segment is full and begins the next one. raft-wal does so in the background
// and does not resume it: it would reject all further writes.
func (o *opening) sealTail(c segmentContent, last uint64) error {
	state := o.meta.state()
	state.Segments = slices.Clone(state.Segments)
	full := &state.Segments[len(state.Segments)-1]
	full.SealTime = time.Now()
	full.MaxIndex = last
	full.IndexStart = c.indexStart
	next := types.SegmentInfo{
		ID:         state.NextSegmentID,
		BaseIndex:  last + 1,
		MinIndex:   last + 1,
		Codec:      full.Codec,
		CreateTime: full.SealTime,
		SizeLimit:  full.SizeLimit,
	}

	state.Segments = append(state.Segments, next)
	state.NextSegmentID++
	return o.meta.CommitState(state)
}

// eraseBytes overwrites a part of a file with zeros, durably.
func eraseBytes(path string, offset, size int) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, size), int64(offset))
	return errors.Join(err, f.Sync(), f.Close())
}
