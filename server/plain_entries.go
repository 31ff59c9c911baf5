package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"berth/internal/backoff"
	"berth/server/raftfiles"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
)

// plainEntryLoop removes from the disk of one server, leader or not, all entries up to cluster.SecretsMark. A
// file in the data directory has the index up to which this was done.
type plainEntryLoop struct {
	Store   *state.Store
	Raft    *raft.Raft
	Reload  func(change func(*raft.ReloadableConfig)) error // the settings of Raft
	Enter   func() (leave func(), err error)                // admits a call of Raft, which leave ends
	Files   *raftfiles.Files
	DataDir string
	Logger  hclog.Logger

	done atomic.Uint64
}

// pause is the time between two attempts.
const pause = 2 * time.Second

// Done returns the index up to which entries and snapshots were removed, 0 for none.
func (l *plainEntryLoop) Done() uint64 { return l.done.Load() }

// Run removes until ctx ends.
func (l *plainEntryLoop) Run(ctx context.Context) {
	done, err := raftfiles.Forgotten(l.DataDir)
	if err != nil {
		l.Logger.Warn("removing old log entries again", "error", err)
	}

	l.done.Store(done)
	told := ""
	for ctx.Err() == nil {
		tx := l.Store.ReadWatched()
		mark := trust.SecretsMark(tx)
		if mark == nil || mark.ModifyIndex <= l.Done() {
			_ = l.Store.Wait(ctx, tx)
			continue
		}

		// A crash before the next line repeats the removal, which then finds nothing.
		removed, err := l.remove(mark.ModifyIndex)
		if err == nil && removed {
			err = raftfiles.SetForgotten(l.DataDir, mark.ModifyIndex)
		}

		switch {
		case err != nil && err.Error() == told: // a disk that is full stays so for a while
		case err != nil:
			told = err.Error()
			l.Logger.Warn("failed to remove log entries with plain secrets from the disk, retrying", "error",
				err)
		case removed:
			l.done.Store(mark.ModifyIndex)
			l.Logger.Info("removed log entries and snapshots from before the encryption of secrets",
				"index", mark.ModifyIndex)
			continue
		}

		backoff.Sleep(ctx, pause)
	}
}

// remove takes a snapshot and deletes all older ones, and every segment of the log with an entry up to the
// index. It reports whether nothing of them is left: entries that are not applied yet stay.
func (l *plainEntryLoop) remove(index uint64) (bool, error) {
	leave, err := l.Enter()
	if err != nil {
		return false, err
	}
	defer leave()

	if l.Files.Log.OldestEntry() <= index {
		// Segments are deleted as a whole. The entries after the index go to another one.
		err = l.Files.Log.NewSegment()
		if err == nil {
			err = l.compact()
		}
		if err != nil {
			return false, err
		}
	}

	newest, err := l.Files.KeepNewest()
	if err != nil {
		return false, structs.Internalf("deleting old snapshots: %w", err)
	}

	return newest >= index && l.Files.Log.OldestEntry() > index, nil
}

// compact takes a snapshot, and deletes every entry in it from the log. Raft keeps TrailingLogs of them
// otherwise.
func (l *plainEntryLoop) compact() error {
	var usual uint64
	err := l.Reload(func(rc *raft.ReloadableConfig) {
		usual = rc.TrailingLogs
		rc.TrailingLogs = 0
	})
	if err != nil {
		return structs.Internalf("shortening the log: %w", err)
	}

	// With this setting a follower that is a little behind would need a whole snapshot, so it is short-lived.
	defer func() { _ = l.Reload(func(rc *raft.ReloadableConfig) { rc.TrailingLogs = usual }) }()
	err = l.Raft.Snapshot().Error()
	if err != nil {
		return structs.Unavailablef("taking a snapshot: %w", err)
	}

	return nil
}
