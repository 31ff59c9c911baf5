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
type noRootKeys struct{}

var errNoRootKeys = structs.Preconditionf("this server has no root keys")

func (noRootKeys) List(context.Context, *structs.QueryRequest) (*structs.KeyringListResponse, error) {
	return nil, errNoRootKeys
}

func (noRootKeys) Serve(
	context.Context, *structs.KeyringRotateRequest, *structs.KeyringRotateResponse,
) (uint64, error) {
	return 0, errNoRootKeys
}

func (noRootKeys) Status(*structs.KeyringStatus) {}
