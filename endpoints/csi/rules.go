package csi

import (
	"context"

	"berth/acl"
	"berth/internal/admit"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/validate/field"
)

// applyRules returns an error, of kind denied, if an admission rule denies one of the volumes of an entry,
// and otherwise the warnings of the rules. The rules see each volume as it will be stored, with the stored
// values that the request leaves out.
func (w VolumeWrites) applyRules(
	ctx context.Context, tx *state.ReadTx, entry *structs.CSIVolumeRegisterRequest,
) (warnings string, err error) {
	var objects []admit.Input
	for _, v := range entry.Volumes {
		old := csi.Volume(tx, v.Namespace, v.ID)
		objects = append(objects, admit.OfVolume(csi.AsStored(v, old), old))
	}
	return w.admit(ctx, tx, objects...)
}

// admit returns an error, of kind denied, if an admission rule denies one of the objects, and otherwise the
// warnings of the rules.
func (w VolumeWrites) admit(
	ctx context.Context, tx *state.ReadTx, objects ...admit.Input,
) (warnings string, err error) {
	verdict, err := w.Admit(ctx, tx, objects...)
	if err == nil {
		err = verdict.Err()
	}
	return field.JoinFaults(verdict.Warnings), err
}

// AsStored returns a copy of a volume in the form in which it is stored. Admission rules are tested on it.
func (w VolumeWrites) AsStored(given *structs.CSIVolume, namespace string) (*structs.CSIVolume, error) {
	req := &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{given},
		WriteOptions: structs.WriteOptions{Namespace: namespace},
	}
	checked, err := w.checkedCopy(req, true)
	if err != nil {
		return nil, err
	}

	v := checked.Volumes[0]
	return csi.AsStored(v, csi.Volume(w.Store.Read(), v.Namespace, v.ID)), nil
}

// pin binds an entry to the rows that the rights of its caller were about. The source of a new volume stays
// the one of now. A caller who may only expand changes the volume of now, and makes no other with its ID.
func (w VolumeWrites) pin(ctx context.Context, tx *state.ReadTx, wanted, old *structs.CSIVolume) {
	if csi.NeverCreated(old) {
		wanted.CloneSource = csi.CloneSource(tx, wanted)
	}

	rights := w.Gate.CallerOf(ctx, tx).ACL
	if old != nil && rights != nil && !rights.Volume(wanted.Namespace, wanted.ID, acl.VolumeWrite) {
		wanted.ModifyIndex = old.ModifyIndex
	}
}
