package operator

import (
	"context"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/cluster"
)

var rootKeyList = api.NewEndpoint(&table, api.Get, "/v1/operator/keyring/keys",
	api.ServeList(cluster.KeyringList, nil,
		func(a *cluster.KeyringListResponse) []*cluster.RootKeyMeta { return a.Keys }))

// RootKeys lists the root keys, with the servers that cannot open them.
func RootKeys(ctx context.Context, c *api.Client, q *api.Query) ([]*cluster.RootKeyMeta, *api.Meta, error) {
	return rootKeyList.Fetch(ctx, c, "", q)
}

var rootKeyRotate = api.NewEndpoint(&table, api.Put, "/v1/operator/keyring/rotate",
	api.ServeMethod(cluster.KeyringRotate, bindRotate, api.Whole))

// bindRotate rejects the choices of the dialect that berth does not have.
func bindRotate(c *api.Call, req *cluster.KeyringRotateRequest) (err error) {
	algorithm := c.Param("algo")
	if algorithm != "" && algorithm != cluster.RootKeyAlgorithm {
		return api.BadParam("algo", algorithm, cluster.RootKeyAlgorithm)
	}
	if c.Params().Has("publish_time") {
		return structs.Invalidf("the parameter publish_time: a new root key is active at once; leave it out")
	}
	req.Full, err = c.Flag("full")
	return err
}

// RotateRootKey makes a new root key the active one. With full the leader encrypts all secrets again with it.
func RotateRootKey(ctx context.Context, c *api.Client, full bool) (*cluster.KeyringRotateResponse, error) {
	params := url.Values{}
	if full {
		params.Set("full", "true")
	}
	return rootKeyRotate.Send(ctx, c, api.Request{Query: params})
}

var rootKeyRemove = api.NewEndpoint(&table, api.Remove, "/v1/operator/keyring/key/{id}",
	api.ServeMethod(cluster.KeyringDelete,
		bindRemoveKey, api.Whole))

func bindRemoveKey(c *api.Call, req *cluster.RootKeyRemoveRequest) error {
	force, err := c.Flag("force")
	if err != nil {
		return err
	}
	if force {
		return structs.Invalidf("the parameter force: a root key that a secret needs is never removed; " +
			"berth operator root keyring rotate -full encrypts its secrets with another one")
	}
	req.KeyID = c.ID()
	return nil
}

// RemoveRootKey deletes a root key that is not active and that no secret needs.
func RemoveRootKey(ctx context.Context, c *api.Client, id string) error {
	return rootKeyRemove.Exec(ctx, c, api.Request{ID: id})
}
