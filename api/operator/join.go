package operator

import (
	"context"

	"berth/api"
	"berth/structs/cluster"
)

var joinTokenCreate = api.NewEndpoint(&table, api.Put, "/v1/join/token",
	api.ServeMethod(cluster.JoinTokenCreate, bindJoinToken, api.Whole))

// bindJoinToken takes requests from callers that may have secrets: with the token of a server its holder gets
// the key-encryption key.
func bindJoinToken(c *api.Call, req *cluster.JoinTokenCreateRequest) error {
	err := api.AllowSecrets(c)
	if err != nil {
		return err
	}
	return c.DecodeBody(req)
}

// CreateJoinToken makes a join token. The answer alone has its secret.
func CreateJoinToken(ctx context.Context, c *api.Client, r *cluster.JoinTokenCreateRequest) (
	*cluster.JoinTokenCreateResponse, error,
) {
	return joinTokenCreate.Send(ctx, c, api.Request{Body: r})
}

var joinTokenList = api.NewEndpoint(&table, api.Get, "/v1/join/tokens",
	api.ServeMethod(cluster.JoinTokenList, nil,
		func(a *cluster.JoinTokenListResponse) []*cluster.JoinToken { return a.Tokens }))

// JoinTokens lists the join tokens that can still be used, without their secrets.
func JoinTokens(ctx context.Context, c *api.Client, q *api.Query) ([]*cluster.JoinToken, *api.Meta, error) {
	return joinTokenList.Fetch(ctx, c, "", q)
}

var joinTokenDelete = api.NewEndpoint(&table, api.Remove, "/v1/join/token/{id}",
	api.ServeMethod(cluster.JoinTokenDelete,
		api.WithID(func(req *cluster.JoinTokenDeleteRequest, id string) { req.ID = id }),
		api.Whole))

// DeleteJoinToken makes a join token useless.
func DeleteJoinToken(ctx context.Context, c *api.Client, id string) error {
	return joinTokenDelete.Exec(ctx, c, api.Request{ID: id})
}
