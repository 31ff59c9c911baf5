package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hashicorp/raft"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/internal/snaparchive"
	"berth/state"
	"berth/structs"
)

// restoreFiles is the pattern of the names of unpacked archives. They hold secrets and have the mode 0600.
const restoreFiles = "restore-*.tmp"

// SnapshotSave writes an archive of the whole present state. On the leader it has everything that was
// committed before the call, on a follower everything that has arrived there.
func (s *Server) SnapshotSave(_ context.Context, w io.Writer) error {
	if err := s.consensus.enter(); err != nil {
		return err
	}
	defer s.consensus.inside.Done()

	f := s.consensus.Snapshot()
	if err := f.Error(); err != nil {
		return structs.Unavailablef("taking a snapshot: %w", err)
	}

	meta, r, err := f.Open()
	if err != nil {
		return structs.Internalf("reading the snapshot just taken: %w", err)
	}
	defer func() { _ = r.Close() }()

	return snaparchive.Write(w, snaparchive.Meta{
		Index:   meta.Index,
		Term:    meta.Term,
		Berth:   s.cfg.Version,
		Created: time.Now().UTC(),
	}, meta.Size, r)
}

// SnapshotRestore replaces the whole state of the cluster by the content of an archive. It reads the archive
// to its end, checks its sums and loads its state aside before it changes anything, because Raft stops the
// process for a state that does not load. For the same reason it rejects an archive whose secrets no server
// would open: see keys.Keys.Adopt. Only the leader can do it.
func (s *Server) SnapshotRestore(ctx context.Context, r io.Reader, given keyring.RestoreKeys) error {
	_, leads, _, _ := s.Leader()
	if !leads {
		return structs.Unavailablef("this server does not lead; restore at the leader")
	}

	if err := s.consensus.enter(); err != nil {
		return err
	}
	defer s.consensus.inside.Done()

	tmp, err := os.CreateTemp(s.cfg.DataDir, restoreFiles)
	if err != nil {
		return structs.Internalf("restoring: %w", err)
	}
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(filepath.Clean(tmp.Name()))
	}()

	meta, err := snaparchive.ReadToRestore(r, tmp)
	if err != nil {
		return err
	}

	s.restoring.Lock() // one at a time: each needs the memory of a state
	defer s.restoring.Unlock()
	defer lowerGOGC(restoreGC)()
	whole := io.NewSectionReader(tmp, 0, math.MaxInt64)
	aside, err := fsm.LoadAside(whole, meta.Index) // no row can be newer than the archive
	if err != nil {
		return err
	}

	err = s.rootKeys.Adopt(ctx, aside, given)
	if err != nil {
		return err
	}

	err = s.betweenLoops(ctx, func() error {
		return s.replaceState(ctx, &aside, *meta, tmp)
	})
	if err != nil {
		return err
	}

	return ctx.Err()
}

// restoreGC is the percentage of GOGC during a restore. Two states exist then, the old and the new one, and
// with the usual percentage as much garbage.
const restoreGC = 50

// replaceState makes the cluster take over a state that was loaded aside, and clears aside before Raft
// loads it again: the memory of a state may be most of the machine's. The leader loops do not run: if one
// of them recorded something after state.Recover had read the state, for example a controller call, the
// record would be lost although the call takes effect. For the same reason no other server may have led
// since the state was read.
func (s *Server) replaceState(
	ctx context.Context,
	aside **state.Store,
	meta snaparchive.Meta,
	f *os.File,
) error {
	term := s.consensus.CurrentTerm()
	if !s.caughtUp(ctx) {
		return structs.Unavailablef("the snapshot was not restored: this server does not lead any more")
	}

	size, err := s.prepareState(*aside, f)
	if err != nil {
		return err
	}

	*aside = nil
	runtime.GC()

	if s.consensus.CurrentTerm() != term {
		return structs.Unavailablef("the snapshot was not restored: the leader has changed; restore again")
	}

	rm := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax,
		Index:   meta.Index,
		Term:    meta.Term,
		Size:    size,
	}

	content := io.NewSectionReader(f, 0, size)
	if err := s.consensus.Restore(rm, content, 0); err != nil {
		return raftError(err)
	}

	return nil
}

// prepareState marks the nodes of a state as unaccounted, so that they report their volumes before those
// are handed out again (state.Recover). It writes the state to a file and returns its size.
func (s *Server) prepareState(aside *state.Store, f *os.File) (size int64, err error) {
	err = aside.Write(aside.Index(), func(tx *state.WriteTx) error {
		state.Recover(tx, s.store.Read(), s.clock.Now().UnixNano())
		return nil
	})
	if err == nil {
		err = f.Truncate(0)
	}

	if err == nil {
		file := io.NewOffsetWriter(f, 0)
		out := bufio.NewWriterSize(file, 1<<20)
		err = errors.Join(aside.Save(out), out.Flush())
		size, _ = file.Seek(0, io.SeekCurrent)
	}

	if err != nil {
		return 0, structs.Internalf("restoring: %w", err)
	}

	return size, nil
}
