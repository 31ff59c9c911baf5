package keyring

import (
	"encoding/json"
	"maps"

	"berth/structs"
)

// SealWarning tells an operator that secrets are stored without encryption.
const SealWarning = "The cluster has no root key: the secrets of the volume are stored without encryption, " +
	"and are encrypted once it has one: berth operator root keyring list"

// SealSecrets encrypts the secrets of a volume. The error is precondition if the keyring has no active key.
func SealSecrets(keys *Ring, namespace, volume string, plain structs.Secrets) (*structs.Sealed, error) {
	b, err := json.Marshal(map[string]string(plain)) // its keys are in order
	if err != nil {
		return nil, structs.Internalf("encoding the secrets of volume %q: %w", volume, err)
	}
	return keys.Seal(structs.VolumePlace(namespace, volume), b)
}

// OpenSecrets decrypts the secrets of a volume. The error is unavailable if this server has not opened their
// root key: the caller may ask again.
func OpenSecrets(keys *Ring, namespace, volume string, sealed *structs.Sealed) (structs.Secrets, error) {
	b, err := keys.Open(structs.VolumePlace(namespace, volume), sealed)
	if structs.IsKind(err, structs.KindPrecondition) {
		return nil, structs.Unavailablef("%w", err)
	}
	if err != nil {
		return nil, err
	}

	var plain map[string]string
	err = json.Unmarshal(b, &plain)
	if err != nil {
		return nil, structs.Internalf("the secrets of volume %q in namespace %q have another form than expected",
			volume, namespace)
	}

	return plain, nil
}

// SealVolume replaces the secrets of a new row by sealed ones. Those that equal the secrets of the old row,
// nil for none, keep its sealed form: the row then does not change.
func SealVolume(keys *Ring, v, old *structs.CSIVolume) error {
	if len(v.Secrets) == 0 {
		return nil
	}

	if old != nil && old.SealedSecrets != nil {
		stored, err := OpenSecrets(keys, old.Namespace, old.ID, old.SealedSecrets)
		if err == nil && maps.Equal(stored, v.Secrets) { // without its key they are simply replaced
			v.Secrets = nil
			v.SealedSecrets = old.SealedSecrets
			return nil
		}
	}

	sealed, err := SealSecrets(keys, v.Namespace, v.ID, v.Secrets)
	if err != nil {
		return err
	}

	v.Secrets = nil
	v.SealedSecrets = sealed
	return nil
}

// OpenVolume returns a volume with its secrets in Secrets: the row itself if they are there already.
func OpenVolume(keys *Ring, v *structs.CSIVolume) (*structs.CSIVolume, error) {
	if v == nil || v.SealedSecrets == nil {
		return v, nil
	}

	plain, err := OpenSecrets(keys, v.Namespace, v.ID, v.SealedSecrets)
	if err != nil {
		return nil, err
	}

	c := *v
	c.Secrets = plain
	c.SealedSecrets = nil
	return &c, nil
}

// OpenAttachment returns an attachment with its secrets in Secrets, as OpenVolume does.
func OpenAttachment(keys *Ring, a *structs.CSIAttachment) (*structs.CSIAttachment, error) {
	if a == nil || a.SealedSecrets == nil {
		return a, nil
	}

	plain, err := OpenSecrets(keys, a.Namespace, a.VolumeID, a.SealedSecrets)
	if err != nil {
		return nil, err
	}

	c := *a
	c.Secrets = plain
	c.SealedSecrets = nil
	return &c, nil
}

// SameSecrets reports whether two rows have the same stored secrets. SameSecrets secrets that were sealed
// twice differ.
func SameSecrets(a, b structs.Secrets, sealedA, sealedB *structs.Sealed) bool {
	if sealedA == nil || sealedB == nil {
		return sealedA == sealedB && maps.Equal(a, b)
	}
	return sealedA.KeyID == sealedB.KeyID && string(sealedA.Data) == string(sealedB.Data)
}
