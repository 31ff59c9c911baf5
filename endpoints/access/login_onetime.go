package access

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
)

// oneTimeLife is how long a one-time token lives.
const oneTimeLife = 10 * time.Minute

// MakeOneTime makes a one-time token for the token of the caller. Its row has the secret of that token in a
// form that the one-time secret alone opens: neither a snapshot nor a root key tells it.
func (p Logins) MakeOneTime(
	ctx context.Context, req *access.OneTimeMakeRequest, resp *access.OneTimeMakeResponse,
) (uint64, error) {
	t := state.TokenBySecret(p.Store.Read(), string(req.Caller))
	if t == nil {
		return 0, structs.Preconditionf("the request has no token for which a one-time token could be made")
	}

	secret := access.Secret(structs.NewID())
	box, err := oneTimeBox(secret)
	if err != nil {
		return 0, err
	}
	row := &access.OneTimeToken{
		Hash:       access.HashSecret(string(secret)),
		Box:        box.Seal(nil, nil, []byte(req.Caller), nil),
		AccessorID: t.AccessorID,
		End:        req.Now + int64(oneTimeLife),
	}
	index, err := fsm.Propose(ctx, p.Raft, fsm.ACLOneTime, &access.OneTimeChange{Put: row, Now: req.Now})
	if err != nil {
		return 0, err
	}
	resp.OneTimeToken = &access.OpenOneTimeToken{
		OneTimeSecretID: secret,
		AccessorID:      row.AccessorID,
		ExpiresAt:       time.Unix(0, row.End).UTC(),
		Indexes:         structs.Indexes{CreateIndex: index, ModifyIndex: index},
	}
	return index, nil
}

// oneTimeBox returns the cipher of the row of a one-time token. The row has the SHA-256 of the secret, which
// tells nothing of the key that HKDF derives.
func oneTimeBox(secret access.Secret) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "berth one-time token", 32)
	if err != nil {
		return nil, structs.Internalf("deriving the key of a one-time token: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, structs.Internalf("the cipher of a one-time token: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// ExchangeOneTime gives the token of a one-time token, once.
func (p Logins) ExchangeOneTime(
	ctx context.Context, req *access.OneTimeExchangeRequest, resp *access.TokenPutResponse,
) (uint64, error) {
	return p.attempt(req.Source, func() (uint64, error) {
		err := checkBound("OneTimeSecretID", string(req.OneTimeSecretID), maxName)
		if err != nil {
			return 0, err
		}
		hash := access.HashSecret(string(req.OneTimeSecretID))
		row := state.OneTimeToken(p.Store.Read(), hash)
		if row == nil {
			return 0, structs.Deniedf("no one-time token has this secret: it was used, has ended or never existed")
		}
		box, err := oneTimeBox(req.OneTimeSecretID)
		if err != nil {
			return 0, err
		}
		secret, err := box.Open(nil, nil, row.Box, nil)
		if err != nil {
			return 0, structs.Internalf("the row of the one-time token is damaged")
		}

		index, err := fsm.Propose(ctx, p.Raft, fsm.ACLOneTime, &access.OneTimeChange{Use: hash, Now: req.Now})
		if err != nil {
			return 0, err
		}
		t := state.TokenByAccessor(p.Store.Read(), row.AccessorID)
		if t == nil || t.Expired(req.Now) {
			return 0, structs.Deniedf("the token of the one-time token has ended or was deleted")
		}
		err = p.answer(row.AccessorID, string(secret), resp)
		return index, err
	})
}
