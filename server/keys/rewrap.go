package keys

import (
	"context"
	"fmt"

	"berth/fsm"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// rewrapAll wraps the root keys of the previous key-encryption key with the present one, once all servers
// have that. Secrets stay as they are, and so do the keys in the ring. It returns an error if something is
// left.
func (k *Keys) rewrapAll(ctx context.Context, tx state.Reader) error {
	if k.Settings.Previous == nil {
		return nil
	}

	kek, err := k.encrypter()
	if err != nil {
		return fmt.Errorf("root keys of the previous key-encryption key: %w", err)
	}

	left := 0
	for row := range trust.RootKeys(tx) {
		if row.KEK == kek.ID() {
			continue
		}

		former, err := k.opener(row.KEK)
		if err != nil {
			left++ // the list of keys says why
			continue
		}

		// The check is repeated for each key: a server may come up with the former key while this goes on.
		if err := k.checkServers(kek.ID()); err != nil {
			return structs.Preconditionf("root keys of the previous key-encryption key: %w", err)
		}

		request, err := rewrap(ctx, former, kek, row)
		if err == nil {
			_, err = fsm.Propose(ctx, k.Proposer, fsm.RootKeyRewrap, request)
		}

		if err != nil {
			return fmt.Errorf("wrapping root key %s with key-encryption key %s: %w", row.KeyID, kek.ID(), err)
		}

		k.Logger.Info("wrapped a root key with another key-encryption key",
			"root_key", row.KeyID, "kek", kek.ID(), "was", row.KEK)
	}

	if left > 0 {
		return fmt.Errorf("%d root keys need a key-encryption key that this server does not have", left)
	}

	return nil
}

// rewrap returns the request that wraps a root key with another key-encryption key.
func rewrap(
	ctx context.Context, from, to encrypter, row *cluster.RootKey,
) (*cluster.RootKeyRewrapRequest, error) {
	key, err := unwrap(ctx, from, row)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	wrapped, err := to.Wrap(ctx, row.KeyID, key)
	if err != nil {
		return nil, err
	}

	return &cluster.RootKeyRewrapRequest{
		KeyID: row.KeyID,
		// The entry does nothing if another leader has wrapped the key meanwhile.
		Was:     row.KEK,
		KEK:     to.ID(),
		Wrapped: wrapped,
	}, nil
}
