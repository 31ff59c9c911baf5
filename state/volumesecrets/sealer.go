package volumesecrets

import (
	"berth/internal/keyring"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
)

// Sealer encrypts the secrets that a request gives for a volume, before they enter the log.
type Sealer struct {
	Keys        *keyring.Ring
	Server      string // the name of this server, which leads
	RequiresTLS bool   // in the whole cluster
}

// Volume encrypts the secrets of a new row. plain reports that they stay as they are.
func (s Sealer) Volume(tx state.Reader, wanted, old *structs.CSIVolume) (plain bool, err error) {
	if len(wanted.Secrets) == 0 {
		return false, nil
	}
	plain, err = s.keepsPlain(tx)
	if plain || err != nil {
		return plain, err
	}
	return false, keyring.SealVolume(s.Keys, wanted, old)
}

// Deletion encrypts the secrets of a request to delete a volume. plain reports that they stay as they are.
func (s Sealer) Deletion(tx state.Reader, req *structs.CSIVolumeDeleteRequest) (plain bool, err error) {
	if len(req.Secrets) == 0 {
		return false, nil
	}
	plain, err = s.keepsPlain(tx)
	if plain || err != nil {
		return plain, err
	}
	req.SealedSecrets, err = keyring.SealSecrets(s.Keys, req.RequestNamespace(), req.ID, req.Secrets)
	req.Secrets = nil
	return false, err
}

// keepsPlain reports whether secrets enter the log without encryption: in a cluster that has no root key and
// does not require TLS. The error is unavailable if this server has not opened the root key: plain secrets
// would stay in the log of every server and in archives.
func (s Sealer) keepsPlain(tx state.Reader) (bool, error) {
	if s.Keys.Active() != "" {
		return false, nil
	}

	active := trust.ActiveRootKey(tx)
	switch {
	case active != nil:
		return false, structs.Unavailablef("secrets are encrypted with root key %s, which server %s, the leader, "+
			"has not opened: `berth operator root keyring list` has the reason; give it its key-encryption key, "+
			"or let a server that has it lead: berth operator raft transfer-leadership", active.KeyID,
			s.Server)
	case s.RequiresTLS:
		return false, structs.Preconditionf("the cluster requires TLS, and has no root key to encrypt secrets of " +
			"volumes: make a key with `berth operator root keyring init`, " +
			"and set server { keyring { file = \"...\" } } on each server")
	}
	return true, nil
}
