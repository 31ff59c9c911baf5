package raftfiles

import "sync/atomic"

// behind counts the bytes of the entries behind the newest snapshot: a start has to apply them. It is about
// right: the entries that are stored while a snapshot begins count for either side.
type behind struct{ bytes atomic.Int64 }

func (b *behind) add(n int64) { b.bytes.Add(n) }

func (b *behind) read() int64 { return b.bytes.Load() }

// BytesBehind returns the bytes of the entries behind the newest snapshot, about.
func (l *Log) BytesBehind() int64 { return l.behind.bytes.Load() }

// segmentSize is the size of a segment at the start.
type segmentSize struct {
	first uint64
	last  uint64
	bytes int64
}

// bytesAfter returns the bytes of the entries behind an index. In the segment that has this index, all
// entries count as equally large.
func bytesAfter(sizes []segmentSize, index uint64) (bytes int64) {
	for _, s := range sizes {
		switch {
		case s.first > index:
			bytes += s.bytes
		case s.last > index:
			bytes += s.bytes / int64(s.last-s.first+1) * int64(s.last-index)
		}
	}
	return bytes
}

// NewestSnapshot returns the size of the state in the newest snapshot, 0 if there is none.
func (f *Files) NewestSnapshot() (bytes int64, err error) {
	all, err := f.Snapshots.List()
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0].Size, nil
}
