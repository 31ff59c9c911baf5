package volumesecrets

import (
	"berth/internal/keyring"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// Pin returns an attachment with the encrypted secrets for its next call, and puts them into the note that
// precedes the call. A variable may change or be deleted while a node has the volume. So the attachment keeps
// the items of its attach, and the detach has the same ones (CSI spec,
// ControllerUnpublishVolumeRequest.secrets). The error is unavailable.
func Pin(
	tx state.Reader,
	keys *keyring.Ring,
	a *structs.CSIAttachment,
	note *structs.CSICallNote,
) (*structs.CSIAttachment, error) {
	v := csi.Volume(tx, a.Namespace, a.VolumeID)
	same := v != nil && v.PluginID == a.PluginID && v.ExternalID == a.ExternalVolumeID
	if !same || !readsAnew(a) || Path(tx, v) == "" {
		return a, nil
	}
	opened, err := OpenForCall(tx, keys, v)
	if err != nil {
		return nil, err
	}
	sealed, err := keyring.SealSecrets(keys, a.Namespace, a.VolumeID, opened.Secrets)
	if err != nil {
		return nil, structs.Unavailablef("%w", err)
	}

	a = a.Copy()
	a.Secrets = nil
	a.SealedSecrets = sealed
	note.Secrets = nil
	note.SealedSecrets = sealed
	return a, nil
}

// readsAnew reports whether the next call of an attachment has the present items of the variable. An attach
// of unknown outcome is repeated with the same ones (CSI spec, "Timeouts"), unless they were denied. A detach
// needs them only for an attachment that was found: any other has the secrets of its attach, or had none.
func readsAnew(a *structs.CSIAttachment) bool {
	has := a.SealedSecrets != nil || len(a.Secrets) > 0
	if a.State == structs.AttachmentDetaching {
		return a.Found && !has
	}
	denied := a.LastError != nil && a.LastError.Kind == structs.KindDenied
	return !has || a.Call == nil || denied
}
