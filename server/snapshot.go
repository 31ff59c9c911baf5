package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/snaparchive"
	"berth/state"
	"berth/structs"
)

// restoreFiles is the pattern of the names of unpacked archives. They hold secrets and have the mode 0600.
const restoreFiles = "restore-*.tmp"

// removeRestoreFiles removes the archives that a server left when it was killed during a restore.
func removeRestoreFiles(dataDir string) error {
	left, err := filepath.Glob(filepath.Join(dataDir, restoreFiles))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// SnapshotSave writes an archive of the whole state as it is now. On the leader it holds everything that
// was committed before the call; on a follower what has arrived there.
func (s *Server) SnapshotSave(_ context.Context, w io.Writer) error {
	if err := s.consensus.gate.enter(); err != nil {
		return err
	}
	defer s.consensus.gate.inside.Done()
	f := s.consensus.Snapshot()
	if err := f.Error(); err != nil {
		return structs.Errorf(structs.KindUnavailable, "taking a snapshot: %w", err)
	}
	meta, r, err := f.Open()
	if err != nil {
		return structs.Errorf(structs.KindInternal, "reading the snapshot just taken: %w", err)
	}
	defer func() { _ = r.Close() }()
	return snaparchive.Write(w, snaparchive.Meta{
		Index: meta.Index, Term: meta.Term, Version: s.cfg.Version, Created: time.Now().UTC(),
	}, meta.Size, r)
}

// SnapshotRestore replaces the whole state of the cluster by what an archive holds. The archive is read to
// its end, its sums are checked and its state is loaded aside before anything is changed: Raft takes the
// process down for a state that does not load. Only the leader can do it.
func (s *Server) SnapshotRestore(ctx context.Context, r io.Reader) error {
	if _, leads, _, _ := s.Leader(); !leads {
		return structs.Errorf(structs.KindUnavailable, "this server does not lead; restore at the leader")
	}
	if err := s.consensus.gate.enter(); err != nil {
		return err
	}
	defer s.consensus.gate.inside.Done()
	tmp, err := os.CreateTemp(s.cfg.DataDir, restoreFiles)
	if err != nil {
		return structs.Errorf(structs.KindInternal, "restoring: %w", err)
	}
	defer func() { _ = tmp.Close(); _ = os.Remove(filepath.Clean(tmp.Name())) }()
	meta, err := snaparchive.Read(r, tmp)
	if err != nil {
		return err
	}
	size, err := s.prepareState(tmp, meta.Index)
	if err != nil {
		return err
	}
	rm := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: meta.Index, Term: meta.Term, Size: size}
	if err := s.consensus.Restore(rm, tmp, 0); err != nil {
		return raftError(err)
	}
	select {
	case s.restored <- struct{}{}:
	default:
	}
	return ctx.Err()
}

// prepareState loads a state aside, has its nodes say what they hold before volumes are handed out again
// (state.Recover), and writes it back. It says how long it is, and leaves the file at its beginning. No row
// can be newer than the archive.
func (s *Server) prepareState(f *os.File, index uint64) (size int64, err error) {
	fault := func(err error) (int64, error) { return 0, structs.Errorf(structs.KindInternal, "restoring: %w", err) }
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fault(err)
	}
	aside := state.New()
	if err := fsm.New(aside).Restore(io.NopCloser(f)); err != nil {
		return 0, structs.Errorf(structs.KindInvalid, "the archive holds a state that this version cannot load: %w", err)
	}
	if aside.Index() > index {
		return 0, structs.Errorf(structs.KindInvalid, "the archive is of index %d and holds a state of index %d", index, aside.Index())
	}
	err = aside.Write(aside.Index(), func(tx *state.Write) error {
		state.Recover(tx, s.store.Read(), time.Now().UnixNano())
		return nil
	})
	if err != nil {
		return fault(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fault(err)
	}
	if err := f.Truncate(0); err != nil {
		return fault(err)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(aside.Save(out), out.Flush()); err != nil {
		return fault(err)
	}
	if size, err = f.Seek(0, io.SeekEnd); err != nil {
		return fault(err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fault(err)
	}
	return size, nil
}
