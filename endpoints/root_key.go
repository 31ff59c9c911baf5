package endpoints

import (
	"context"

	"berth/state"
	"berth/structs"
)

// RootKeys are the root keys of the cluster on one server (see server/keys).
type RootKeys interface {
	// Rotate makes another root key the active one. With full the secrets of the others are encrypted again.
	Rotate(ctx context.Context, full bool) (*structs.RootKey, uint64, error)
	// Closed returns why servers cannot open root keys: by the ID of the key, and by the name of the server.
	Closed(ctx context.Context) map[string]map[string]string
	// Status fills what this server cannot open.
	Status(resp *structs.KeyringStatus)
}

// rootKeys serve the methods of the keyring.
type rootKeys struct{ *Endpoints }

func (k rootKeys) list(ctx context.Context, _ *structs.QueryRequest) (*structs.KeyringListResponse, error) {
	tx := k.store.Read()
	closed := map[string]map[string]string{}
	if k.root != nil {
		closed = k.root.Closed(ctx)
	}
	resp := &structs.KeyringListResponse{Keys: []*structs.RootKeyMeta{}}
	for row := range state.RootKeys(tx) {
		meta := row.Meta()
		meta.Closed = closed[row.KeyID]
		resp.Keys = append(resp.Keys, meta)
	}
	return resp, nil
}

func (k rootKeys) rotate(
	ctx context.Context,
	req *structs.KeyringRotateRequest,
	resp *structs.KeyringRotateResponse,
) (uint64, error) {
	if k.root == nil {
		return 0, structs.Preconditionf("this server makes no root keys")
	}
	key, index, err := k.root.Rotate(ctx, req.Full)
	if err != nil {
		return index, err
	}
	resp.Key = key.Meta()
	return index, nil
}

func (k rootKeys) status(resp *structs.KeyringStatus) {
	if k.root != nil {
		k.root.Status(resp)
	}
}
