package api

import (
	"context"

	"berth/structs"
)

var joinTokenCreate = route(put, "/v1/join/token",
	serveMethod(structs.JoinTokenCreate, bindJoinToken, whole))

// bindJoinToken takes requests from callers that may have secrets: with the token of a server its holder gets
// the key-encryption key.
func bindJoinToken(c *call, req *structs.JoinTokenCreateRequest) error {
	err := allowSecrets(c)
	if err != nil {
		return err
	}
	return c.decodeBody(req)
}

// CreateJoinToken makes a join token. The answer alone has its secret.
func CreateJoinToken(ctx context.Context, c *Client, r *structs.JoinTokenCreateRequest) (
	*structs.JoinTokenCreateResponse, error,
) {
	return joinTokenCreate.send(ctx, c, request{body: r})
}

var joinTokenList = route(get, "/v1/join/tokens",
	serveMethod(structs.JoinTokenList, nil,
		func(a *structs.JoinTokenListResponse) []*structs.JoinToken { return a.Tokens }))

// JoinTokens lists the join tokens that can still be used, without their secrets.
func JoinTokens(ctx context.Context, c *Client, q *Query) ([]*structs.JoinToken, *Meta, error) {
	return joinTokenList.fetch(ctx, c, "", q)
}

var joinTokenDelete = route(remove, "/v1/join/token/{id}",
	serveMethod(structs.JoinTokenDelete,
		withID(func(req *structs.JoinTokenDeleteRequest, id string) { req.ID = id }),
		whole))

// DeleteJoinToken makes a join token useless.
func DeleteJoinToken(ctx context.Context, c *Client, id string) error {
	return joinTokenDelete.route.exec(ctx, c, request{id: id})
}
