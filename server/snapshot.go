package server

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/snaparchive"
	"berth/structs"
)

// SnapshotSave writes an archive of the whole state as it is now. On the leader it holds everything that
// was committed before the call; on a follower what has arrived there.
func (s *Server) SnapshotSave(_ context.Context, w io.Writer) error {
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
// its end and its sums are checked before anything is changed. Only the leader can do it.
func (s *Server) SnapshotRestore(ctx context.Context, r io.Reader) error {
	if _, leads, _, _ := s.Leader(); !leads {
		return structs.Errorf(structs.KindUnavailable, "this server does not lead; restore at the leader")
	}
	tmp, err := os.CreateTemp(s.cfg.DataDir, "restore-*.tmp")
	if err != nil {
		return structs.Errorf(structs.KindInternal, "restoring: %w", err)
	}
	defer func() { _ = tmp.Close(); _ = os.Remove(filepath.Clean(tmp.Name())) }()
	meta, err := snaparchive.Read(r, tmp)
	if err != nil {
		return err
	}
	size, err := tmp.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = tmp.Seek(0, io.SeekStart)
	}
	if err != nil {
		return structs.Errorf(structs.KindInternal, "restoring: %w", err)
	}
	rm := &raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: meta.Index, Term: meta.Term, Size: size}
	if err := s.consensus.Restore(rm, tmp, 0); err != nil {
		return raftError(err)
	}
	return ctx.Err()
}
