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

	"berth/internal/files"
	"berth/internal/level"
	"berth/structs"
)

// castagnoli is the polynomial of all CRC-32 checksums here.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 {
	return crc32.Checksum(b, castagnoli)
}

const (
	markName = "log-end"
	// markKind begins the file in every version, and a level follows it.
	markKind = "berth log-end level="
	// markHead and markTail have a fixed length: the record is rewritten in place.
	markHead = markKind + "%03d id=%-36s last=%020d snapshot=%020d"
	markTail = " crc=%08x\n"
	markScan = markKind + "%d id=%s last=%d snapshot=%d" // reads the output of markHead
)

// markRecord is the content of the file log-end.
type markRecord struct {
	level    int    // of the version that has written the server's files: see package level
	id       string // the server's id
	last     uint64 // every entry up to this index was durable; an emptied log has 0
	snapshot uint64 // the index of the newest snapshot, 0 without one
}

// encode returns the record in its fixed length, with a checksum of all before it.
func (r markRecord) encode() []byte {
	head := fmt.Appendf(nil, markHead, r.level, r.id, r.last, r.snapshot)
	return fmt.Appendf(head, markTail, checksum(head))
}

// The errors of decodeMark for files of other versions.
var (
	errNewer   = errors.New("a newer version of berth has written the files of this server")
	errOlder   = errors.New("a version before 0.1.0 has written the files of this server")
	errNoLevel = errors.New("the files of this server have no level: " +
		"a version before 0.1.0 has written them, or this file is lost")
)

// decodeMark accepts exactly the bytes that encode makes. It reads the level first: a newer version may write
// another record behind it.
func decodeMark(b []byte) (markRecord, error) {
	var r markRecord
	if !bytes.HasPrefix(b, []byte(markKind)) {
		return r, errNoLevel
	}
	_, err := fmt.Sscanf(string(b), markKind+"%d", &r.level)
	if err == nil && r.level > level.Now {
		return r, fmt.Errorf("%w: they have level %d, and this version reads up to level %d",
			errNewer, r.level, level.Now)
	}
	_, err = fmt.Sscanf(string(b), markScan, &r.level, &r.id, &r.last, &r.snapshot)

	// Sscanf accepts many forms of a number, and reads no checksum. Equal bytes prove both.
	if err == nil && !bytes.Equal(r.encode(), b) {
		err = errors.New("the checksum does not match")
	}
	if err == nil && r.level < level.First {
		err = fmt.Errorf("%w: they have level %d, and this version reads from level %d",
			errOlder, r.level, level.First)
	}
	return r, err
}

// readMark returns a record without an id if the directory is new.
func readMark(dataDir string) (r markRecord, err error) {
	path := filepath.Join(dataDir, markName)
	b, err := readLimited(path, 4096)
	switch {
	case errors.Is(err, os.ErrNotExist) && !hasLog(dataDir):
		return r, nil
	case errors.Is(err, os.ErrNotExist):
		err = errNoLevel
	case err == nil:
		r, err = decodeMark(b)
	}

	switch {
	case err == nil:
		return r, nil
	case errors.Is(err, errNewer):
		return r, structs.Preconditionf("%s: %w. Start that version again, or a later one "+
			"(see Files of several versions in docs/operations/upgrade.md)", path, err)
	case errors.Is(err, errOlder):
		return r, structs.Preconditionf("%s: %w. No version reads them: start the server with an empty data_dir. "+
			"It joins the other servers, or begins a cluster in which the jobs and volumes have to be registered "+
			"again (see Files of several versions in docs/operations/upgrade.md)", path, err)
	case errors.Is(err, errNoLevel):
		return r, damageError(dataDir, path, "%w", err)
	}

	return r, damageError(dataDir, path, "the file is damaged: %w", err)
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
// space. From then on an older version rejects the files.
func openMark(dataDir string, record markRecord, logger hclog.Logger) (*mark, error) {
	path := filepath.Join(dataDir, markName)

	// WriteFile makes it under another name first, so that it is never there in part.
	if !pathExists(path) {
		if err := files.WriteDurable(path, record.encode()); err != nil {
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
		// A disk that is full would have this at each entry.
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

	// A range that begins above the mark removes nothing that it names.
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
