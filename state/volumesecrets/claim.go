package volumesecrets

import (
	"berth/internal/keyring"
	"berth/state"
	"berth/structs"
)

// Await makes the answer for a claim wait while the variable with the secrets of its volume is missing, and
// returns the reason, "" without one. A write of the variable gives the answer a newer index.
func Await(tx state.Reader, resp *structs.CSIClaimGetResponse) string {
	if !resp.Ready {
		return ""
	}
	row, err := Variable(tx, resp.Volume)
	if err != nil {
		resp.Ready = false
		return err.Error()
	}
	if row != nil {
		resp.Index = max(resp.Index, row.ModifyIndex)
	}
	return ""
}

// Fill decrypts the secrets of an answer's volume, once its node may use the volume. A node needs none of the
// secrets of attachments. The error is unavailable if this server has not opened a root key.
func Fill(tx state.Reader, keys *keyring.Ring, resp *structs.CSIClaimGetResponse) error {
	if resp.Attachment != nil {
		own := *resp.Attachment
		own.Secrets = nil
		own.SealedSecrets = nil
		resp.Attachment = &own
	}
	if resp.Ready {
		opened, err := Open(tx, keys, resp.Volume)
		if !structs.IsKind(err, structs.KindPrecondition) {
			resp.Volume = opened
			return err
		}
		resp.Ready = false
		resp.Blocked = err.Error()
	}
	if resp.Volume != nil {
		own := *resp.Volume
		own.Secrets = nil
		own.SealedSecrets = nil
		resp.Volume = &own
	}
	return nil
}
