package keys

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"berth/internal/keyring"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// Adopt makes the root keys of a state aside, which is to replace the cluster's, ones that the servers open.
// It wraps keys of another key-encryption key with the servers': from the given file, from the previous key
// of this server, or because the cluster has the same root key. It deletes an active one that no server would
// open and that encrypts nothing, so that new secrets get the root key of the cluster. It changes only the
// state aside.
//
// The error is precondition, and names the missing key, if secrets would be closed after the restore.
func (k *Keys) Adopt(ctx context.Context, aside *state.Store, given keyring.RestoreKeys) error {
	var file encrypter
	if given.File != "" {
		parsed, err := keyring.ParseFileKey([]byte(given.File))
		if err != nil {
			return structs.Invalidf("the key file of the archive's cluster: %w", err)
		}

		file = fileKey{parsed}
	}

	// All changes are found before the first one is made: a key that is missing must leave the state as it
	// was.
	a := adoption{keys: k, file: file, given: given}
	for _, row := range slices.Collect(trust.RootKeys(aside.Read())) {
		request, err := a.adopt(ctx, aside.Read(), row)
		if err != nil {
			return structs.Errorf(structs.KindOf(err),
				"the snapshot was not restored, and nothing has changed: %w", err)
		}

		if request != nil {
			a.requests = append(a.requests, request)
		}
	}

	if len(a.requests) == 0 && len(a.lost) == 0 && a.unused == nil {
		return nil
	}

	// The index stays the archive's, because this is no entry of the log.
	return aside.Write(aside.Index(), func(tx *state.WriteTx) error {
		for _, r := range a.requests {
			if err := trust.RootKeyRewrap(tx, r); err != nil {
				return err
			}
		}

		for _, keyID := range a.lost {
			// Without its private part a key can never sign again, so the cluster makes another one.
			trust.AuthoritiesForget(tx, keyID)
			trust.SigningKeysForget(tx, keyID)
		}

		if a.unused == nil {
			return nil
		}

		return trust.DeleteUnusedRootKey(tx, a.unused)
	})
}

// adoption collects the changes of Adopt.
type adoption struct {
	keys     *Keys
	file     encrypter // nil: none was given
	given    keyring.RestoreKeys
	requests []*cluster.RootKeyRewrapRequest
	lost     []string         // IDs of root keys that no server will open
	unused   *cluster.RootKey // the active one, if it encrypts nothing and no server would open it
}

// adopt returns the change of one root key, or nil if it stays as it is.
func (a *adoption) adopt(
	ctx context.Context, aside state.Reader, row *cluster.RootKey,
) (*cluster.RootKeyRewrapRequest, error) {
	// Most archives are of this cluster, and its servers have the same key.
	kek, err := a.keys.encrypter()
	if err == nil && kek.ID() == row.KEK {
		return nil, nil
	}

	// An archive from before the key-encryption key was replaced.
	known := trust.RootKey(a.keys.Store.Read(), row.KeyID)
	if kek != nil && known != nil && known.KEK == kek.ID() && bytes.Equal(known.Digest, row.Digest) {
		return &cluster.RootKeyRewrapRequest{
			KeyID:   row.KeyID,
			Was:     row.KEK,
			KEK:     known.KEK,
			Wrapped: known.Wrapped,
		}, nil
	}

	// The file comes before the keys of this server: the operator gave it for this archive.
	from := a.file
	if from == nil || from.ID() != row.KEK {
		from, _ = a.keys.opener(row.KEK)
	}

	if from == nil || kek == nil {
		return nil, a.missing(aside, row, err)
	}

	// A key that is wrapped for this server alone would be closed to the next leader.
	if err := a.keys.checkServers(kek.ID()); err != nil {
		return nil, err
	}

	request, err := rewrap(ctx, from, kek, row)
	if err != nil {
		return nil, structs.Preconditionf("opening root key %s of the archive with key-encryption key %s: %w",
			row.KeyID, row.KEK, err)
	}

	return request, nil
}

// missing returns the error of a root key that no server would open, or nil if nothing needs it. It notes one
// that the operator gives up, and an active one that encrypts nothing.
func (a *adoption) missing(aside state.Reader, row *cluster.RootKey, own error) error {
	count, places := usesOf(aside, row.KeyID)

	// It is deleted, because new secrets would be encrypted with it.
	if count == 0 && row.State == cluster.RootKeyActive {
		a.unused = row
	}

	if count == 0 {
		return nil
	}

	if a.given.LoseSecrets {
		a.lost = append(a.lost, row.KeyID)
		return nil
	}

	has := []string{"this server has " + a.keys.KEK() + " (" + a.keys.Settings.Source.String() + ")"}
	if own != nil {
		has = []string{"this server has none: " + own.Error()}
	}

	if a.file != nil {
		has = append(has, "the given file has "+a.file.ID())
	}

	return structs.Preconditionf("root key %s of the archive, which encrypts the secrets of %d places "+
		"(e.g. %s), needs key-encryption key %s; %s. Give the key of the archive's cluster: -keyring-file "+
		"FILE, or its encrypted copy: -escrow FILE -identity FILE. A key in a key management system is "+
		"named by server { keyring { previous } } of each server. If no copy is left, -lose-secrets restores all else",
		row.KeyID, count, places, row.KEK, strings.Join(has, ", "))
}
