package volumesecrets

import (
	"berth/internal/keyring"
	"berth/state"
	"berth/structs"
)

// Fill decrypts the secrets of an answer's volume, once its node may use the volume. While the variable with
// them is missing or has others, the answer is not ready, and Fill returns the reason, "" without one. The
// error is unavailable if this server has not opened a root key.
func Fill(
	tx state.Reader, keys *keyring.Ring, resp *structs.CSIClaimGetResponse,
) (missing string, err error) {
	if !resp.Ready {
		return "", nil
	}
	opened, err := Open(tx, keys, resp.Volume)
	if structs.IsKind(err, structs.KindPrecondition) {
		resp.Ready = false
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	resp.Volume = opened
	return "", nil
}

// Hide removes the secrets that the node of an answer does not need: the secrets of attachments, and of a
// volume that it may not use yet.
func Hide(resp *structs.CSIClaimGetResponse) {
	if resp.Attachment != nil {
		own := *resp.Attachment
		own.Secrets = nil
		own.SealedSecrets = nil
		resp.Attachment = &own
	}
	if resp.Volume != nil && !resp.Ready {
		own := *resp.Volume
		own.Secrets = nil
		own.SealedSecrets = nil
		resp.Volume = &own
	}
}
