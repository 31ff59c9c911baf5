package csi

import (
	"context"

	"berth/endpoints/core"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// readProgress reads the row of an object, and reports whether the wait is done. p may be nil if it is.
type readProgress func(tx *state.ReadTx) (p *storage.Progress, done bool, err error)

// awaitProgress waits until look reports so, at most Settings.VolumeTimeout. An object that is cut is no
// failure when the time ends: its plugin may need hours. Otherwise the error is then a timeout, in which
// title names the object.
func awaitProgress(ctx context.Context, s *core.Server, title string, look readProgress) error {
	// The work goes on when this wait ends: the row is the order, and not the request.
	ctx, cancel := context.WithTimeout(ctx, s.Settings.VolumeTimeout)
	defer cancel()
	for {
		tx := s.Store.ReadWatched()
		p, done, err := look(tx)
		if done || err != nil {
			return err
		}
		if s.Store.Wait(ctx, tx) == nil {
			continue
		}
		if p.State == storage.SnapshotPending {
			return nil
		}

		reason := "the plugin has not answered"
		if p.LastError != nil {
			reason = p.LastError.Message
		}
		return structs.Timeoutf("%s is still %s: %s; the call is retried, repeat the command later",
			title, p.State, reason)
	}
}

// undeleted returns why the row of an object is left although its deletion has ended: the error of the
// plugin, or a conflict after a deletion that was cancelled. It is nil while the deletion goes on.
func undeleted(p *storage.Progress, title string) error {
	switch {
	case p.State == storage.SnapshotDeleting:
		return nil
	case p.LastError == nil:
		return structs.Conflictf("the deletion of %s was cancelled", title)
	}
	return structs.Errorf(p.LastError.Kind, "deleting %s: %s", title, p.LastError.Message)
}
