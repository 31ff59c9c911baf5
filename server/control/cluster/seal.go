package cluster

import (
	"context"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/keyring"
	"berth/server/control/loop"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// SealLoop replaces the plain secrets of volumes and attachments by encrypted ones, in bounded entries. The
// rows say how far it is, so a new leader goes on. A mark in the state says when there are none left; each
// server then removes the former entries from its disk.
//
// It encrypts the plain secrets of rows while this server leads, once the cluster has a root key.
// The leader starts the loop, and ends it with its leadership.
type SealLoop struct {
	loop.Common
}

// sealInterval is the time between two steps. New secrets are encrypted before they are stored, so nothing
// waits for a step but rows from before the first root key and from restored archives.
const sealInterval = 10 * time.Second

// Run encrypts until ctx ends.
func (l SealLoop) Run(ctx context.Context) {
	for {
		err := l.Step(ctx)
		// Precondition: a server is too old to know encrypted secrets.
		if err != nil && ctx.Err() == nil && !structs.IsKind(err, structs.KindPrecondition) {
			l.Logger.Warn("failed to encrypt the secrets of volumes, retrying", "error", err)
		}

		if !backoff.Sleep(ctx, sealInterval) {
			return
		}
	}
}

// Step encrypts all plain secrets, and then puts the mark. Without a root key it does nothing.
func (l SealLoop) Step(ctx context.Context) error {
	// Without a key there is nothing to encrypt with. The first one may be made later.
	if l.Keys.Active() == "" {
		return nil
	}

	total := 0
	for {
		// The rows are read anew for each entry, so a row that a user has changed meanwhile is not replaced.
		rows, err := l.nextRows()
		if err != nil {
			return err
		}

		if len(rows) == 0 {
			break
		}

		_, err = fsm.Propose(ctx, l.Proposer, fsm.SecretsSeal, &cluster.SecretsSealRequest{Rows: rows})
		if err != nil {
			return err
		}

		total += len(rows)
	}

	if total > 0 {
		l.Logger.Warn("encrypted the secrets of volumes; earlier archives of the state have them in plain "+
			"text: delete these archives, or change the secrets at the storage",
			"rows", total)
	}

	if trust.SecretsMark(l.Store.Read()) != nil {
		return nil
	}

	_, err := fsm.Propose(ctx, l.Proposer, fsm.SecretsSealed, &cluster.SecretsSealedRequest{
		Now: time.Now().UnixNano(),
	})
	if structs.IsKind(err, structs.KindConflict) {
		return nil // the next step encrypts them
	}

	return err
}

// nextRows encrypts the secrets of the next rows that have plain ones.
func (l SealLoop) nextRows() (rows []*cluster.SealedRow, err error) {
	tx := l.Store.Read()
	for v := range trust.PlainVolumes(tx) {
		row := &cluster.SealedRow{
			Namespace: v.Namespace,
			VolumeID:  v.ID,
			// The entry replaces the secrets of this version of the row only.
			ModifyIndex: v.ModifyIndex,
		}

		row.Secrets, err = l.seal(v.Namespace, v.ID, v.Secrets)
		if err == nil && v.Deletion != nil {
			row.Deletion, err = l.seal(v.Namespace, v.ID, v.Deletion.Secrets)
		}

		rows = append(rows, row)
		if err != nil || len(rows) == cluster.MaxSealedRows {
			return rows, err
		}
	}

	for a := range trust.PlainAttachments(tx) {
		row := &cluster.SealedRow{
			Namespace:   a.Namespace,
			VolumeID:    a.VolumeID,
			NodeID:      a.NodeID,
			ModifyIndex: a.ModifyIndex,
		}

		row.Secrets, err = l.seal(a.Namespace, a.VolumeID, a.Secrets)
		rows = append(rows, row)
		if err != nil || len(rows) == cluster.MaxSealedRows {
			return rows, err
		}
	}

	return rows, nil
}

// seal encrypts secrets, none to nil.
func (l SealLoop) seal(namespace, volume string, plain structs.Secrets) (*structs.Sealed, error) {
	if len(plain) == 0 {
		return nil, nil
	}
	return keyring.SealSecrets(l.Keys, namespace, volume, plain)
}
