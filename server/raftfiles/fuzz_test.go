package raftfiles

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/hashicorp/raft"

	"berth/internal/level"
	"berth/structs"
)

func FuzzDecodeMark(f *testing.F) {
	f.Add(markRecord{
		level:    level.Now,
		id:       structs.NewID(),
		last:     7,
		snapshot: 3,
	}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeMark(b); err == nil && !bytes.Equal(r.encode(), b) {
			t.Fatal("accepted bytes that encode does not make")
		}
	})
}

func FuzzDecodeMeta(f *testing.F) {
	b, err := metaContent{Stable: map[string][]byte{"CurrentTerm": {1}}}.encode(1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("berth wal-meta 2 "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, write, err := decodeMeta(b); err == nil {
			if _, err := c.encode(write); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzScanSegment(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 8, 0, 0, 0}, 20))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := scanSegment(b)
		if c.end > len(b) || len(c.offsets)*frameHeader > len(b) {
			t.Fatalf("%d entries up to %d in %d bytes", len(c.offsets), c.end, len(b))
		}
	})
}

func FuzzDecodeSnapshotMeta(f *testing.F) {
	b, err := json.Marshal(stateMeta{SnapshotMeta: raft.SnapshotMeta{Version: 1, ID: "1-2-3"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeSnapshotMeta(b); err == nil && m.Version != raft.SnapshotVersionMax &&
			m.Version != raft.SnapshotVersionMin {
			t.Fatal("accepted another version")
		}
	})
}
