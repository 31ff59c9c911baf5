package api

import (
	"context"

	"berth/structs/admin"
)

var joinTokenCreate = route(put, "/v1/join/token",
	serveMethod(admin.JoinTokenCreate, bindJoinToken, whole))

// bindJoinToken takes requests from callers that may have secrets: with the token of a server its holder gets
// the key-encryption key.
func bindJoinToken(c *call, req *admin.JoinTokenCreateRequest) error {
	err := allowSecrets(c)
	if err != nil {
		return err
	}
	return c.decodeBody(req)
}

// CreateJoinToken makes a join token. The answer alone has its secret.
func CreateJoinToken(ctx context.Context, c *Client, r *admin.JoinTokenCreateRequest) (
	*admin.JoinTokenCreateResponse, error,
) {
	return joinTokenCreate.send(ctx, c, request{body: r})
}

var joinTokenList = route(get, "/v1/join/tokens",
	serveMethod(admin.JoinTokenList, nil,
		func(a *admin.JoinTokenListResponse) []*admin.JoinToken { return a.Tokens }))

// JoinTokens lists the join tokens that can still be used, without their secrets.
func JoinTokens(ctx context.Context, c *Client, q *Query) ([]*admin.JoinToken, *Meta, error) {
	return joinTokenList.fetch(ctx, c, "", q)
}

var joinTokenDelete = route(remove, "/v1/join/token/{id}",
	serveMethod(admin.JoinTokenDelete,
		withID(func(req *admin.JoinTokenDeleteRequest, id string) { req.ID = id }),
		whole))

// DeleteJoinToken makes a join token useless.
func DeleteJoinToken(ctx context.Context, c *Client, id string) error {
	return joinTokenDelete.route.exec(ctx, c, request{id: id})
}
