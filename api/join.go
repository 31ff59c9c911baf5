package api

import (
	"context"

	"berth/structs/cluster"
)

var joinTokenCreate = NewEndpoint(Put, "/v1/join/token",
	ServeMethod(cluster.JoinTokenCreate, bindJoinToken, Whole))

// bindJoinToken takes requests from callers that may have secrets: with the token of a server its holder gets
// the key-encryption key.
func bindJoinToken(c *Call, req *cluster.JoinTokenCreateRequest) error {
	err := allowSecrets(c)
	if err != nil {
		return err
	}
	return c.DecodeBody(req)
}

// CreateJoinToken makes a join token. The answer alone has its secret.
func CreateJoinToken(ctx context.Context, c *Client, r *cluster.JoinTokenCreateRequest) (
	*cluster.JoinTokenCreateResponse, error,
) {
	return joinTokenCreate.Send(ctx, c, Request{Body: r})
}

var joinTokenList = NewEndpoint(Get, "/v1/join/tokens",
	ServeMethod(cluster.JoinTokenList, nil,
		func(a *cluster.JoinTokenListResponse) []*cluster.JoinToken { return a.Tokens }))

// JoinTokens lists the join tokens that can still be used, without their secrets.
func JoinTokens(ctx context.Context, c *Client, q *Query) ([]*cluster.JoinToken, *Meta, error) {
	return joinTokenList.Fetch(ctx, c, "", q)
}

var joinTokenDelete = NewEndpoint(Remove, "/v1/join/token/{id}",
	ServeMethod(cluster.JoinTokenDelete,
		WithID(func(req *cluster.JoinTokenDeleteRequest, id string) { req.ID = id }),
		Whole))

// DeleteJoinToken makes a join token useless.
func DeleteJoinToken(ctx context.Context, c *Client, id string) error {
	return joinTokenDelete.route.exec(ctx, c, Request{ID: id})
}
