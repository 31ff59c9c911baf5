package raftfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"berth/internal/files"
)

const (
	metaName = "wal-meta.db"
	// metaHead begins a slot, in front of its content: the number of the write, the bytes of the content, and
	// the checksum of all that. It has a fixed length.
	metaHead = "berth wal-meta 2 write=%020d bytes=%010d"
	metaTail = " crc=%08x\n"
	metaScan = "berth wal-meta 2 write=%d bytes=%d" // reads the output of metaHead
	// metaSlot is the size of a slot of a new file. A segment takes some 300 bytes.
	metaSlot = 16 << 10
	// metaLimit bounds the file: a segment holds at least one entry.
	metaLimit = 128 << 20
)

// headSize is the length of metaHead and metaTail together.
var headSize = len(fmt.Sprintf(metaHead+metaTail, 0, 0, 0))

// stableKeys are the keys under which Raft keeps its term and its vote.
var stableKeys = []string{termKey, "LastVoteTerm", "LastVoteCand"}

// metaContent is the content of the file wal-meta.db.
type metaContent struct {
	State  types.PersistentState // the segments of the log
	Stable map[string][]byte     // Raft's stable values
}

// encode returns the content of a slot: a line with the checksum, and then the content in JSON, which an
// operator can read.
func (c metaContent) encode(write uint64) ([]byte, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	head := fmt.Appendf(nil, metaHead, write, len(body))
	head = fmt.Appendf(head, metaTail, metaSum(head, body))
	return append(head, body...), nil
}

// metaSum returns the checksum of the number, the length and the content.
func metaSum(head, body []byte) uint32 {
	return crc32.Update(checksum(head), castagnoli, body)
}

// decodeMeta reads a slot. It checks the checksum before it reads the content.
func decodeMeta(slot []byte) (c metaContent, write uint64, err error) {
	if len(slot) < headSize {
		return c, 0, errors.New("it is too short")
	}
	head, rest := slot[:headSize], slot[headSize:]
	var n uint64
	_, err = fmt.Sscanf(string(head), metaScan, &write, &n)
	if err != nil || n > uint64(len(rest)) {
		return c, 0, errors.New("it has no head")
	}
	body := rest[:n]
	plain := fmt.Appendf(nil, metaHead, write, n)
	if string(head) != string(fmt.Appendf(plain, metaTail, metaSum(plain, body))) {
		return c, 0, errors.New("the checksum does not match")
	}
	return c, write, json.Unmarshal(body, &c)
}

// metaStore keeps the list of segments and Raft's stable values in one file with two slots that have the
// same content. A write replaces one slot durably, and then the other. So it needs no space, a write that is
// interrupted leaves one whole slot, and a slot that is damaged later is known by the other.
type metaStore struct {
	path    string
	logger  hclog.Logger
	ending  chan struct{} // closed by stopWaiting
	stopped sync.Once

	writing sync.Mutex // held while the content changes
	file    *os.File   // nil: it is not open yet, or closed
	closed  bool
	write   uint64 // the number of the last one
	slot    int    // the size of a slot

	mu      sync.Mutex
	content metaContent
	lack    error // why a change waits; nil: none does
}

// loadMeta reads the file.
func loadMeta(dir string) (*metaStore, error) {
	m := &metaStore{
		path:   filepath.Join(dir, metaName),
		logger: hclog.NewNullLogger(),
		ending: make(chan struct{}),
		slot:   metaSlot,
	}
	m.content.Stable = map[string][]byte{}
	b, err := readLimited(m.path, metaLimit)
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	// The file is never empty. A file system that lost its content leaves it so.
	if len(b) == 0 {
		return nil, errors.New("the file is empty")
	}

	for 2*m.slot < len(b) {
		m.slot *= 2
	}
	var faults []error
	for i := range 2 {
		slot := b[min(i*m.slot, len(b)):min((i+1)*m.slot, len(b))]
		c, write, err := decodeMeta(slot)
		if err == nil && write > m.write {
			m.content = c
			m.write = write
		}
		faults = append(faults, err)
	}
	if m.write == 0 {
		return nil, errors.Join(faults...)
	}
	return m, nil
}

// repair makes the file, or writes both slots again: one of them may be damaged. Where that needs space and
// there is none, the whole slot is enough.
func (m *metaStore) repair() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	err := m.store(m.content)
	if files.IsNoSpace(err) && m.file != nil {
		return nil
	}
	return err
}

// replaceContent makes c the content, on disk first. It waits while the disk has no space. Its caller holds
// writing.
func (m *metaStore) replaceContent(c metaContent) error {
	for {
		err := m.store(c)
		if err == nil {
			m.mu.Lock()
			// A write that failed leaves the former content.
			m.content = c
			m.lack = nil
			m.mu.Unlock()
			return nil
		}

		err = fmt.Errorf("%s: %w", m.path, err)
		if !files.IsNoSpace(err) || !m.awaitSpace(err) {
			return err
		}
	}
}

// spaceInterval is the time between two attempts to write to a disk that was full.
const spaceInterval = time.Second

// awaitSpace waits for the time of the next attempt. It returns false once the server ends.
func (m *metaStore) awaitSpace(err error) bool {
	m.mu.Lock()
	if m.lack == nil {
		m.logger.Error("waiting for space on the disk", "error", err)
	}
	m.lack = err
	m.mu.Unlock()
	select {
	case <-time.After(spaceInterval):
		return true
	case <-m.ending:
		return false
	}
}

// waits returns why a change waits, nil if none does.
func (m *metaStore) waits() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lack
}

// store writes a content to both slots, one after the other.
func (m *metaStore) store(c metaContent) error {
	if m.closed {
		return os.ErrClosed
	}
	b, err := c.encode(m.write + 1)
	if err != nil {
		return err
	}

	// A write that failed may be in a slot, so its number is never used again.
	m.write++
	err = m.openFile()
	if errors.Is(err, os.ErrNotExist) || err == nil && len(b) > m.slot {
		return m.makeFile(b)
	}
	for i := 0; i < 2 && err == nil; i++ {
		_, err = m.file.WriteAt(b, int64(i*m.slot))
		if err == nil {
			err = m.file.Sync()
		}
	}
	if err == nil && len(b)+segmentInfoSize > m.slot {
		// A later change does this if the disk has no space now.
		_ = m.makeFile(b)
	}
	return err
}

// segmentInfoSize bounds the bytes of a segment in the list. A slot has the space of one more, so that a
// change seldom needs space.
const segmentInfoSize = 1024

func (m *metaStore) openFile() (err error) {
	if m.file == nil {
		var f *os.File
		f, err = os.OpenFile(m.path, os.O_RDWR, 0)
		if err == nil {
			m.file = f
		}
	}
	return err
}

// makeFile makes the file, or a larger one in the place of the former.
func (m *metaStore) makeFile(b []byte) error {
	slot := m.slot
	for len(b)+segmentInfoSize > slot {
		slot *= 2
	}
	both := make([]byte, 2*slot)
	copy(both, b)
	copy(both[slot:], b)
	err := files.WriteDurable(m.path, both)
	if err != nil {
		return err
	}

	if m.file != nil {
		_ = m.file.Close() // of a file that is no longer there
	}
	m.file = nil
	m.slot = slot
	return m.openFile()
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
	m.writing.Lock()
	defer m.writing.Unlock()
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

// SetStable sets a value, or removes it if value is nil (types.MetaStore). It waits while the disk is full.
func (m *metaStore) SetStable(key, value []byte) error {
	m.writing.Lock()
	defer m.writing.Unlock()

	// A copy, so that a write that fails changes nothing in memory.
	stable := maps.Clone(m.content.Stable)
	if value == nil {
		delete(stable, string(key))
	} else {
		stable[string(key)] = bytes.Clone(value)
	}
	err := m.replaceContent(metaContent{
		State:  m.content.State,
		Stable: stable,
	})
	if files.IsNoSpace(err) && string(key) == termKey {
		// Raft panics if it cannot store its term. The server ends, and its vote, without which the term
		// elects nobody, is not stored either.
		return nil
	}
	return err
}

// termKey is the key of Raft's term.
const termKey = "CurrentTerm"

// stopWaiting makes changes that wait for space fail, and later ones not wait.
func (m *metaStore) stopWaiting() {
	m.stopped.Do(func() { close(m.ending) })
}

// ends reports whether stopWaiting was called.
func (m *metaStore) ends() bool {
	select {
	case <-m.ending:
		return true
	default:
		return false
	}
}

// Close closes the file (types.MetaStore).
func (m *metaStore) Close() error {
	m.stopWaiting()
	m.writing.Lock()
	defer m.writing.Unlock()
	m.closed = true
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}

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
