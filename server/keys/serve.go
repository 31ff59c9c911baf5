package keys

import (
	"context"

	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// List describes the root keys, with the servers that cannot open them.
func (k *Keys) List(ctx context.Context, _ *structs.QueryRequest) (*cluster.KeyringListResponse, error) {
	closed := k.Closed(ctx)
	resp := &cluster.KeyringListResponse{Keys: []*cluster.RootKeyMeta{}}
	for row := range trust.RootKeys(k.Store.Read()) {
		meta := row.Meta()
		meta.Closed = closed[row.KeyID]
		resp.Keys = append(resp.Keys, meta)
	}
	return resp, nil
}

// Serve rotates for a request. It returns the index of the entry with the new key.
func (k *Keys) Serve(
	ctx context.Context,
	req *cluster.KeyringRotateRequest,
	resp *cluster.KeyringRotateResponse,
) (uint64, error) {
	key, index, err := k.Rotate(ctx, req.Full)
	if err != nil {
		return index, err
	}

	// The meta has neither the key nor its wrapped form.
	resp.Key = key.Meta()
	return index, nil
}
