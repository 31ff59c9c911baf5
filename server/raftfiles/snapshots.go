package raftfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"berth/internal/files"
)

const (
	snapshotMeta  = "meta.json"
	snapshotState = "state.bin"
	snapshotSum   = "meta.sum" // the checksum of meta.json
	// snapshotMetaLimit bounds meta.json: it lists the servers.
	snapshotMetaLimit = 16 << 20
)

// snapshots is Raft's store of snapshots with a checksum of each meta.json and with errors that name the
// file.
type snapshots struct {
	*raft.FileSnapshotStore
	dir    string
	mark   *mark
	behind *behind
}

// Create begins a snapshot (raft.SnapshotStore).
func (s *snapshots) Create(
	v raft.SnapshotVersion,
	index, term uint64,
	c raft.Configuration,
	at uint64,
	t raft.Transport,
) (raft.SnapshotSink, error) {
	// Entries that come from here on are behind the snapshot.
	before := s.behind.read()
	inner, err := s.FileSnapshotStore.Create(v, index, term, c, at, t)
	if err != nil {
		// Raft's store leaves the directory of one that it could not begin.
		pattern := fmt.Sprintf("%d-%d-*%s", term, index, unfinished)
		left, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, dir := range left {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return nil, err
	}
	return &sink{
		SnapshotSink: inner,
		dir:          filepath.Join(s.dir, inner.ID()),
		index:        index,
		mark:         s.mark,
		taken:        sync.OnceFunc(func() { s.behind.add(-before) }),
	}, nil
}

// List lists the snapshots, newest first (raft.SnapshotStore). Raft skips one whose meta.json it cannot
// read, so each is compared with its checksum before.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		dir := filepath.Join(s.dir, e.Name())
		_, file, err := readMeta(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // Raft deletes old ones meanwhile
			return nil, fmt.Errorf("%s/%s: %w", dir, file, err)
		}
	}
	return s.FileSnapshotStore.List()
}

// Open opens a snapshot whose state has been compared with its checksum (raft.SnapshotStore). Raft calls List
// before.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.FileSnapshotStore.Open(id)
	if err != nil {
		path := filepath.Join(s.dir, id, snapshotState)
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return meta, r, nil
}

// sink is a snapshot while it is written.
type sink struct {
	raft.SnapshotSink
	dir   string
	index uint64
	mark  *mark
	taken func() // its second call does nothing: Raft closes a sink that the state has closed
}

// Close finishes the snapshot.
func (s *sink) Close() error {
	// Raft renames the directory here. A crash before the next line leaves a snapshot without a checksum,
	// which checkSnapshot adds.
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	s.taken()
	b, err := os.ReadFile(filepath.Join(s.dir, snapshotMeta))
	if err != nil {
		return err
	}
	return errors.Join(writeSum(s.dir, b), s.mark.snapshotTaken(s.index))
}

// Cancel removes an unfinished snapshot. Raft's store keeps its files if it cannot write their ends, and with
// them the space that a full disk needs.
func (s *sink) Cancel() error {
	err := s.SnapshotSink.Cancel()
	if err == nil {
		return nil
	}
	// The file is still open, and would keep its blocks.
	left := s.dir + unfinished
	_ = os.Truncate(filepath.Join(left, snapshotState), 0)
	return errors.Join(err, os.RemoveAll(left))
}

func encodeSum(meta []byte) []byte {
	return fmt.Appendf(nil, "%08x\n", checksum(meta))
}

// writeSum writes the checksum of a meta.json beside it.
func writeSum(dir string, meta []byte) error {
	return files.WriteDurable(filepath.Join(dir, snapshotSum), encodeSum(meta))
}

// readSnapshots reads and checks all snapshots, and calls visit with each one and its folder. It passes over
// unfinished ones. It returns the index of the newest one, 0 without one.
func (o *opening) readSnapshots(visit func(dir string, meta *stateMeta) error) (newest uint64, err error) {
	entries, err := os.ReadDir(o.snapDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}

	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), unfinished) {
			continue
		}

		dir := filepath.Join(o.snapDir, e.Name())
		meta, file, err := readMeta(dir)
		if err == nil {
			file = snapshotState
			err = checkState(filepath.Join(dir, file), meta)
		}
		if err != nil {
			return 0, o.damage(filepath.Join(dir, file), "the snapshot is damaged: %w", err)
		}

		newest = max(newest, meta.Index)
		err = visit(dir, meta)
		if err != nil {
			return 0, err
		}
	}

	return newest, nil
}

// unfinished is the end of the name of a snapshot that is being written.
const unfinished = ".tmp"

// checkSnapshots reads all snapshots. It returns the index of the newest one, 0 without one. It removes those
// that were never finished.
func (o *opening) checkSnapshots() (newest uint64, err error) {
	newest, err = o.readSnapshots(func(dir string, meta *stateMeta) error {
		if !meta.noSum {
			return nil
		}
		// Its state is whole, so the checksum that a crash has prevented is written now.
		err := writeSum(dir, meta.bytes)
		if err != nil {
			return o.damage(filepath.Join(dir, snapshotSum), "the snapshot is damaged: %w", err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}

	left, err := filepath.Glob(filepath.Join(o.snapDir, "*"+unfinished))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return newest, err
}

// readMeta returns the meta.json of a snapshot, or the file at fault.
func readMeta(dir string) (meta *stateMeta, file string, err error) {
	b, err := readLimited(filepath.Join(dir, snapshotMeta), snapshotMetaLimit)
	if err != nil {
		return nil, snapshotMeta, err
	}

	sum, err := readLimited(filepath.Join(dir, snapshotSum), 64)
	noSum := errors.Is(err, os.ErrNotExist) // it was interrupted at its very end
	if err != nil && !noSum {
		return nil, snapshotSum, err
	}

	if !noSum && !bytes.Equal(sum, encodeSum(b)) {
		return nil, snapshotMeta, fmt.Errorf("the checksum does not match %s", snapshotSum)
	}

	meta, err = decodeSnapshotMeta(b)
	if err == nil && meta.ID != filepath.Base(dir) {
		err = fmt.Errorf("it names the snapshot %q", meta.ID)
	}
	if err != nil {
		return nil, snapshotMeta, err
	}

	meta.bytes = b
	meta.noSum = noSum
	return meta, "", nil
}

// stateMeta is the content of meta.json, as Raft writes it.
type stateMeta struct {
	raft.SnapshotMeta
	CRC []byte // CRC-64 (ECMA) of state.bin

	bytes []byte // of the file
	noSum bool   // there is no checksum of it
}

// decodeSnapshotMeta reads a meta.json, and rejects a version that Raft would skip in silence.
func decodeSnapshotMeta(b []byte) (*stateMeta, error) {
	m := &stateMeta{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, err
	}
	if m.Version < raft.SnapshotVersionMin ||
		m.Version > raft.SnapshotVersionMax {
		return nil, fmt.Errorf("its version is %d, which this version does not know", m.Version)
	}
	return m, nil
}

// checkState reads the whole state once, and keeps none of it in memory.
func checkState(path string, meta *stateMeta) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()

	// Raft compares this sum when it opens the snapshot, which may be too late to find another one.
	hash := crc64.New(crc64.MakeTable(crc64.ECMA))
	n, err := io.Copy(hash, f)
	switch {
	case err != nil:
		return err
	case n != meta.Size:
		return fmt.Errorf("it has %d bytes instead of %d", n, meta.Size)
	case !bytes.Equal(hash.Sum(nil), meta.CRC):
		return fmt.Errorf("the checksum does not match %s", snapshotMeta)
	}
	return nil
}
