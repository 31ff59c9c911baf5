package csi

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/trust"
	"berth/state/unblock"
	"berth/structs"
	"berth/structs/storage"
)

// checkNoUsers returns an error that names the users that prevent the deletion of a volume, nil if there are
// none.
func checkNoUsers(tx mvcc.Reader, v *structs.CSIVolume) error {
	users := UsersOf(tx, v)
	if users != "" {
		return structs.Preconditionf("%s", users)
	}
	return nil
}

// VolumeDeregister deletes the row of a volume without users. Force first deletes the waiting claims, and an
// attached volume is then detached although its row is gone. A granted claim is never deleted: until its node
// has released the volume it may be mounted there, also for an ended allocation. A new registration would
// then mount it twice.
func VolumeDeregister(tx *mvcc.WriteTx, p *structs.CSIVolumeDeregisterRequest) error {
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	// Force skips the users that may go: waiting claims and attachments. A granted claim is rejected below.
	if !p.Force {
		if err := checkNoUsers(tx, v); err != nil {
			return err
		}
	}

	for _, k := range ClassesIn(tx, v, structs.ClaimGranted) {
		for _, c := range someHolders(tx, v, k) {
			return structs.Preconditionf("volume %q is in use: %s",
				v.ID, DescribeHolder(tx, c))
		}
	}

	if err := checkAnswered(tx, v, p); err != nil {
		return err
	}

	if !p.Force && (v.State == structs.VolumeCreating ||
		v.State == structs.VolumeDeleting) {
		command := structs.CommandLine(v.Namespace, "volume deregister -force", v.ID)
		return structs.Preconditionf(
			"volume %q is %s: without its row it may stay at its plugin; to delete the row all the same: %s",
			v.ID, v.State, command)
	}

	// Only waiting claims are left. Without the volume there is nothing to grant to those behind them.
	for _, c := range ClaimsByVolume(tx, v.Namespace, v.ID) {
		DropClaim(tx, c)
	}

	deleteVolume(tx, v)
	return nil
}

// deleteVolume deletes the row. The release of the volume may not yet have unblocked each evaluation that
// waits for its place on a node, and the row that records the release is gone. So all evaluations that wait
// for capacity are evaluated again.
func deleteVolume(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	schema.Volumes.Delete(tx, v)
	retrySource(tx, v, v.ModifyTime)
	unblock.Delete(tx, structs.WakeVolume(v.Namespace, v.ID))
	forgetHost(tx, v)
	unblock.KeyOnly(tx, structs.WakeCapacity) // it frees no capacity for jobs without volumes
	if v.ExternalID != "" {
		forgetSpace(tx, v.PluginID)
	}
	DropUnusedPlugin(tx, v.PluginID)
	rebindDriver(tx, v.PluginID, v.ModifyTime)
}

// forgetHost deletes what other tables have about a dynamic host volume whose row was deleted. The last
// volume of its name takes the record of unblocks along: no evaluation misses it, as deleteVolume says.
func forgetHost(tx *mvcc.WriteTx, v *structs.CSIVolume) {
	if v.Host == nil {
		return
	}
	DropHostClaimsOfVolume(tx, v)
	if !schema.VolumesByHostName.Has(tx, v.Namespace, v.Host.Name) {
		unblock.Delete(tx, structs.WakeHostVolume(v.Namespace, v.Host.Name))
	}
}

// VolumeDelete records that the plugin is to delete a volume, now or after the delay of its class. The row is
// deleted after that. A volume that was never created is deleted at once.
func VolumeDelete(tx *mvcc.WriteTx, p *structs.CSIVolumeDeleteRequest) error {
	v, err := findVolume(tx, p.RequestNamespace(), p.ID)
	if err != nil {
		return err
	}

	if storage.DeleteDelay(v) > 0 && !p.AtOnce {
		return markByOperator(tx, v, p)
	}

	err = checkNoUsers(tx, v)
	if err != nil {
		return err
	}

	if NeverCreated(v) && !mayExist(v) {
		deleteVolume(tx, v)
		return nil
	}

	err = trust.CheckSealed(tx, p.SealedSecrets)
	if err != nil {
		return err
	}

	own := p.Secrets != nil || p.SealedSecrets != nil
	if v.State == structs.VolumeDeleting && !own {
		return nil
	}

	v = v.Copy()
	unmark(v) // the caller decides about a failure of this deletion
	beginDeletion(v, p.Now)
	if own {
		useDeletionSecrets(v, p)
	}

	unblock.PutVolumeWithout(tx, v)
	return nil
}

// beginDeletion makes a volume one that the plugin is to delete. An expansion of it is of no use any more.
func beginDeletion(v *structs.CSIVolume, now int64) {
	// It is the error of another operation. That of a deletion counts its attempts.
	if v.State != structs.VolumeDeleting {
		v.LastError = nil
		v.DeleteCalled = false
	}

	v.State = structs.VolumeDeleting
	v.ExpandPending = false
	v.ModifyTime = now
}

// useDeletionSecrets gives the volume the secrets of a deletion, and keeps the volume's own.
func useDeletionSecrets(v *structs.CSIVolume, p *structs.CSIVolumeDeleteRequest) {
	// A repeated deletion may bring other secrets, and the volume's own are still from before the first one.
	if v.Deletion == nil {
		v.Deletion = &structs.CSIDeletion{
			Secrets:       v.Secrets,
			SealedSecrets: v.SealedSecrets,
		}
	}

	v.Secrets = p.Secrets.Copy()
	v.SealedSecrets = p.SealedSecrets
}

// EndDeletion restores the secrets of a volume that is not deleted after all, because the deletion's may be
// wrong.
func EndDeletion(v *structs.CSIVolume) {
	if v.Deletion != nil {
		v.Secrets = v.Deletion.Secrets
		v.SealedSecrets = v.Deletion.SealedSecrets
		v.Deletion = nil
	}
}
