package csi

import (
	"context"
	"fmt"

	"berth/endpoints/core"
	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// object is a snapshot or a group of snapshots, by its name. A request waits until its row, an R, says that
// the leader's loop has done the work.
type object[R objectRow] struct {
	*core.Server
	kind string // storage.KindSnapshot or KindGroup
	name string
	read func(tx *state.ReadTx) R // the row, nil for none
}

type objectRow interface {
	*storage.VolumeSnapshot | *storage.GroupSnapshot
	Reached() *storage.Progress
	Stamps() (created, modified uint64)
}

// title names the object in an error.
func (o object[R]) title() string { return fmt.Sprintf("%s %q", o.kind, o.name) }

// awaitTaken waits until a requested object can be restored, and returns its row.
func (o object[R]) awaitTaken(ctx context.Context) (R, error) {
	return o.await(ctx, func(row R) (bool, error) {
		if row == nil {
			return false, structs.Conflictf("%s was deleted meanwhile", o.title())
		}
		return o.isTaken(row.Reached())
	})
}

// isTaken reports whether a requested object needs no more waiting.
func (o object[R]) isTaken(p *storage.Progress) (bool, error) {
	switch p.State {
	case storage.SnapshotDeleting:
		return false, structs.Preconditionf("%s is being deleted", o.title())
	case storage.SnapshotFailed:
		failure := structs.KindPrecondition
		if p.LastError != nil {
			failure = p.LastError.Kind
		}
		help := ""
		if o.kind == storage.KindGroup {
			help = groupRemedy(p.LastError)
		}
		return false, structs.Errorf(failure, "taking %s: %s%s", o.title(), p.Reason, help)
	}
	return p.State == storage.SnapshotReady, nil
}

// remove begins the deletion of the object, and waits until the plugin has deleted it and the row is gone.
func (o object[R]) remove(
	ctx context.Context, c fsm.Command[storage.SnapshotDeleteEntry], entry *storage.SnapshotDeleteEntry,
) (uint64, error) {
	index, err := fsm.Propose(ctx, o.Raft, c, entry)
	if err != nil {
		return 0, err
	}
	_, err = o.await(ctx, func(row R) (bool, error) {
		if row == nil {
			return true, nil
		}
		created, _ := row.Stamps()
		if created != entry.RowIndex {
			return true, nil // another object has the name
		}
		return false, o.undeleted(row.Reached())
	})
	return max(index, o.Store.Index()), err
}

// undeleted returns why the row is left although the deletion has ended: the error of the plugin, or a
// conflict after a deletion that was cancelled. It is nil while the deletion goes on.
func (o object[R]) undeleted(p *storage.Progress) error {
	switch {
	case p.State == storage.SnapshotDeleting:
		return nil
	case p.LastError == nil:
		return structs.Conflictf("the deletion of %s was cancelled", o.title())
	}
	return structs.Errorf(p.LastError.Kind, "deleting %s: %s", o.title(), p.LastError.Message)
}

// await waits until done reports so, at most Settings.VolumeTimeout. An object that is cut is no failure when
// the time ends: its plugin may need hours. Otherwise the error is then a timeout.
func (o object[R]) await(ctx context.Context, done func(row R) (bool, error)) (row R, err error) {
	// The work goes on when this wait ends: the row is the order, and not the request.
	ctx, cancel := context.WithTimeout(ctx, o.Settings.VolumeTimeout)
	defer cancel()
	for {
		tx := o.Store.ReadWatched()
		row = o.read(tx)
		ok, err := done(row)
		if ok || err != nil {
			return row, err
		}
		if o.Store.Wait(ctx, tx) == nil {
			continue
		}
		p := row.Reached()
		if p.State == storage.SnapshotPending {
			return row, nil
		}

		reason := "the plugin has not answered"
		if p.LastError != nil {
			reason = p.LastError.Message
		}
		return row, structs.Timeoutf("%s is still %s: %s; the call is retried, repeat the command later",
			o.title(), p.State, reason)
	}
}

// sealSecrets encrypts the secrets for the calls of an object of a kind. They are for the place of its volume
// in a namespace: the first one of a group.
func sealSecrets(
	s *core.Server, kind string, member *storage.VolumeSnapshot, secrets structs.Secrets,
) (*structs.Sealed, error) {
	if s.Keys.Active() == "" {
		volume := "volume"
		if kind == storage.KindGroup {
			volume = "first volume"
		}
		return nil, structs.Preconditionf("the secrets of a %s are stored encrypted, "+
			"and the cluster has no root key, or this server has not opened it: "+
			"berth operator root keyring list; or give the %s a variable with them: secrets_from", kind, volume)
	}
	return keyring.SealSecrets(s.Keys, member.Namespace, member.VolumeID, secrets)
}
