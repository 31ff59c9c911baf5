package endpoints

import (
	"context"

	"berth/structs"
)

// RootKeys serve the methods of the keyring on one server (see server/keys).
type RootKeys interface {
	List(context.Context, *structs.QueryRequest) (*structs.KeyringListResponse, error)
	Serve(context.Context, *structs.KeyringRotateRequest, *structs.KeyringRotateResponse) (uint64, error)
	Status(*structs.KeyringStatus)
}

// noRootKeys stand for those of a server without any.
type noRootKeys struct{ RootKeys }
