package server

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"berth/internal/backoff"
	"berth/structs"
)

const (
	// leastBehind is the least size of the entries behind a snapshot at which the next one is due, in bytes.
	leastBehind = 16 << 20
	// compactInterval is the time between two looks, and compactPause that after a failure.
	compactInterval = 10 * time.Second
	compactPause    = time.Minute
)

// compactLog takes a snapshot whenever a start would have to apply too much of the log, until ctx ends. Raft
// counts entries (raft_snapshot_threshold), and an entry has up to 256 writes.
func (s *Server) compactLog(ctx context.Context) {
	pause := compactInterval
	for backoff.Sleep(ctx, pause) {
		pause = compactInterval
		err := s.compactOnce()
		if err != nil && ctx.Err() == nil {
			pause = compactPause
			s.logger.Warn("failed to take a snapshot of a long log, retrying", "error", err)
		}
	}
}

// snapshotIsDue compares the bytes of the entries behind the last snapshot with its own. So a start takes
// at most about twice as long as with a new snapshot, and the snapshots of a growing state are together not
// much larger than its log.
func snapshotIsDue(behind, snapshot int64) bool { return behind >= max(leastBehind, snapshot) }

// compactOnce takes a snapshot if one is due.
func (s *Server) compactOnce() error {
	behind := s.consensus.files.Log.BytesBehind()
	if !snapshotIsDue(behind, 0) {
		return nil // the files need not be read
	}
	size, err := s.consensus.files.NewestSnapshot()
	if err != nil || !snapshotIsDue(behind, size) {
		return err
	}

	err = s.consensus.enter()
	if err != nil {
		return err
	}
	defer s.consensus.inside.Done()
	err = s.consensus.Snapshot().Error()
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return structs.Unavailablef("taking a snapshot: %w", err)
	}
	return nil
}
