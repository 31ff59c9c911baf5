package raftfiles

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/internal/durable"
)

// castagnoli is the polynomial of all CRC-32 checksums here.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 {
	return crc32.Checksum(b, castagnoli)
}

const (
	markName = "log-end"
	// markHead and markTail have a fixed length: the record is rewritten in place.
	markHead = "berth log-end 1 id=%-36s last=%020d snapshot=%020d"
	markTail = " crc=%08x\n"
	markScan = "berth log-end 1 id=%s last=%d snapshot=%d" // reads the output of markHead
)

// markRecord is the content of the file log-end.
type markRecord struct {
	id       string // the server's id
	last     uint64 // every entry up to this index was durable; an emptied log has 0
	snapshot uint64 // the index of the newest snapshot, 0 without one
}

func (r markRecord) encode() []byte {
	head := fmt.Appendf(nil, markHead, r.id, r.last, r.snapshot)
	return fmt.Appendf(head, markTail, checksum(head))
}

// decodeMark accepts exactly the bytes that encode makes.
func decodeMark(b []byte) (markRecord, error) {
	var r markRecord
	_, err := fmt.Sscanf(string(b), markScan, &r.id, &r.last, &r.snapshot)
	if err == nil && !bytes.Equal(r.encode(), b) {
		err = errors.New("the checksum does not match")
	}
	return r, err
}

// readMark returns a record without an id if there is no mark: the directory is new or of an older version.
func readMark(dataDir string) (r markRecord, err error) {
	path := filepath.Join(dataDir, markName)
	b, err := readLimited(path, 4096)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		r, err = decodeMark(b)
	}
	if err != nil {
		err = damageError(dataDir, path, "the file is damaged: %w", err)
	}
	return r, err
}

// mark keeps the file log-end. An ordinary update is not synced: the record may be older than the log after a
// power cut, never newer.
type mark struct {
	mu     sync.Mutex
	file   *os.File
	record markRecord
	logger hclog.Logger
	failed bool // an update failed and was reported
}

// openMark creates the file with the record, or writes the record into the existing file, which needs no free
// space.
func openMark(dataDir string, record markRecord, logger hclog.Logger) (*mark, error) {
	path := filepath.Join(dataDir, markName)
	if !pathExists(path) {
		if err := durable.WriteFile(path, record.encode()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	m := &mark{
		file:   f,
		record: record,
		logger: logger,
	}
	if err := m.writeDurably(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// raiseLast records that the log is durable up to an index. A failure only makes the record older than the
// log, so it is reported once and not returned.
func (m *mark) raiseLast(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.last = last
	err := m.write()
	if err != nil && !m.failed {
		m.failed = true
		m.logger.Warn("failed to record the end of the log",
			"path", m.file.Name(),
			"error", err)
	}
}

// lowerLast records durably that the log will end before the index that is recorded now.
func (m *mark) lowerLast(last uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.last = min(m.record.last, last)
	return m.writeDurably()
}

// snapshotTaken records durably that there is a snapshot.
func (m *mark) snapshotTaken(index uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record.snapshot = max(m.record.snapshot, index)
	return m.writeDurably()
}

func (m *mark) writeDurably() error {
	err := errors.Join(m.write(), m.file.Sync())
	if err != nil {
		return fmt.Errorf("%s: %w", m.file.Name(), err)
	}
	return nil
}

func (m *mark) write() error {
	_, err := m.file.WriteAt(m.record.encode(), 0)
	return err
}

func (m *mark) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.file.Sync(), m.file.Close())
}
