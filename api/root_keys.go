package api

import (
	"context"
	"net/url"

	"berth/structs"
	"berth/structs/admin"
)

var rootKeyList = route(get, "/v1/operator/keyring/keys",
	serveList(admin.KeyringList, nil,
		func(a *admin.KeyringListResponse) []*admin.RootKeyMeta { return a.Keys }))

// RootKeys lists the root keys, with the servers that cannot open them.
func RootKeys(ctx context.Context, c *Client, q *Query) ([]*admin.RootKeyMeta, *Meta, error) {
	return rootKeyList.fetch(ctx, c, "", q)
}

var rootKeyRotate = route(put, "/v1/operator/keyring/rotate",
	serveMethod(admin.KeyringRotate, bindRotate, whole))

// bindRotate rejects the choices of the dialect that berth does not have.
func bindRotate(c *call, req *admin.KeyringRotateRequest) (err error) {
	algorithm := c.param("algo")
	if algorithm != "" && algorithm != admin.RootKeyAlgorithm {
		return badParam("algo", algorithm, admin.RootKeyAlgorithm)
	}
	if c.values().Has("publish_time") {
		return structs.Invalidf("the parameter publish_time: a new root key is active at once; leave it out")
	}
	req.Full, err = c.flag("full")
	return err
}

// RotateRootKey makes a new root key the active one. With full the leader encrypts all secrets again with it.
func RotateRootKey(ctx context.Context, c *Client, full bool) (*admin.KeyringRotateResponse, error) {
	params := url.Values{}
	if full {
		params.Set("full", "true")
	}
	return rootKeyRotate.send(ctx, c, request{query: params})
}

var rootKeyRemove = route(remove, "/v1/operator/keyring/key/{id}",
	serveMethod(admin.KeyringDelete,
		bindRemoveKey, whole))

func bindRemoveKey(c *call, req *admin.RootKeyRemoveRequest) error {
	force, err := c.flag("force")
	if err != nil {
		return err
	}
	if force {
		return structs.Invalidf("the parameter force: a root key that a secret needs is never removed; " +
			"berth operator root keyring rotate -full encrypts its secrets with another one")
	}
	req.KeyID = c.id()
	return nil
}

// RemoveRootKey deletes a root key that is not active and that no secret needs.
func RemoveRootKey(ctx context.Context, c *Client, id string) error {
	return rootKeyRemove.route.exec(ctx, c, request{id: id})
}
