package raftfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/durable"
)

const (
	metaName = "wal-meta.db"
	metaHead = "berth wal-meta 1 crc=%08x\n"
	// metaLimit bounds the file: a segment takes some 300 bytes and holds at least one entry.
	metaLimit = 64 << 20
)

// stableKeys are the keys under which Raft keeps its term and its vote.
var stableKeys = []string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"}

// metaContent is the content of the file wal-meta.db.
type metaContent struct {
	State  types.PersistentState // the segments of the log
	Stable map[string][]byte     // Raft's stable values
}

// encode returns a line with the checksum, and then the content in JSON, which an operator can read.
func (c metaContent) encode() ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, metaHead, checksum(body)), body...), nil
}

// decodeMeta checks the checksum before it reads the content.
func decodeMeta(b []byte) (metaContent, error) {
	var c metaContent
	head, body, _ := bytes.Cut(b, []byte("\n"))
	if string(head)+"\n" != fmt.Sprintf(metaHead, checksum(body)) {
		return c, errors.New("the checksum does not match")
	}
	return c, json.Unmarshal(body, &c)
}

// metaStore keeps the list of segments and Raft's stable values in one file with a checksum. Every change
// replaces the file atomically and durably; changes are rare: an election, a new segment, a truncation.
type metaStore struct {
	path    string
	mu      sync.Mutex
	content metaContent
}

// loadMeta reads the file.
func loadMeta(dir string) (*metaStore, error) {
	m := &metaStore{path: filepath.Join(dir, metaName)}
	m.content.Stable = map[string][]byte{}
	b, err := readLimited(m.path, metaLimit)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return m, nil
	case err != nil:
		return nil, err
	// WriteFile never leaves an empty file. A file system that lost its content does.
	case len(b) == 0:
		return nil, errors.New("the file is empty")
	}
	m.content, err = decodeMeta(b)
	return m, err
}

// replaceContent makes c the content, on disk first.
func (m *metaStore) replaceContent(c metaContent) error {
	b, err := c.encode()
	if err == nil {
		err = durable.WriteFile(m.path, b)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}

	// A write that failed leaves the former content, as the file has it.
	m.content = c
	return nil
}

// Load returns the segments (types.MetaStore).
func (m *metaStore) Load(string) (types.PersistentState, error) {
	return m.state(), nil
}

func (m *metaStore) state() types.PersistentState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.content.State
}

// CommitState replaces the segments (types.MetaStore).
func (m *metaStore) CommitState(s types.PersistentState) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replaceContent(metaContent{
		State:  s,
		Stable: m.content.Stable,
	})
}

// GetStable returns a copy of a value, nil if there is none (types.MetaStore).
func (m *metaStore) GetStable(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.content.Stable[string(key)]), nil
}

// SetStable sets a value, or removes it if value is nil (types.MetaStore).
func (m *metaStore) SetStable(key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()

	// A copy, so that a write that fails changes nothing in memory.
	stable := maps.Clone(m.content.Stable)
	if value == nil {
		delete(stable, string(key))
	} else {
		stable[string(key)] = bytes.Clone(value)
	}
	return m.replaceContent(metaContent{
		State:  m.content.State,
		Stable: stable,
	})
}

// Close does nothing: the file is open only while it is written (types.MetaStore).
func (m *metaStore) Close() error { return nil }

// segmentOf returns the path of the segment that holds an entry.
func (m *metaStore) segmentOf(index uint64) string {
	dir := filepath.Dir(m.path)
	for _, s := range slices.Backward(m.state().Segments) {
		if s.BaseIndex <= index {
			return filepath.Join(dir, segment.FileName(s))
		}
	}
	return dir
}
