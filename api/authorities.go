package api

import (
	"context"

	"berth/structs/admin"
)

var authorityReplace = route(put, "/v1/join/authority",
	serveMethod(admin.AuthorityReplace, nil, whole))

// ReplaceAuthority replaces the certificate authority of the cluster. The machines follow by themselves.
func ReplaceAuthority(ctx context.Context, c *Client) (*admin.AuthorityReplaceResponse, error) {
	return authorityReplace.send(ctx, c, request{})
}

var authorityList = route(get, "/v1/join/authorities",
	serveMethod(admin.AuthorityList, nil,
		func(a *admin.AuthorityListResponse) []*admin.AuthorityStub { return a.Authorities }))

// Authorities lists the authorities that are trusted: the one that signs, then the retired ones.
func Authorities(ctx context.Context, c *Client, q *Query) ([]*admin.AuthorityStub, *Meta, error) {
	return authorityList.fetch(ctx, c, "", q)
}

var authorityRemove = route(remove, "/v1/join/authority/{id}",
	serveMethod(admin.AuthorityRemove,
		withID(func(req *admin.AuthorityRemoveRequest, id string) { req.ID = id }),
		whole))

// RemoveAuthority ends the trust in a retired authority, and in those before it.
func RemoveAuthority(ctx context.Context, c *Client, id string) (*admin.AuthorityRemoveResponse, error) {
	return authorityRemove.send(ctx, c, request{id: id})
}

var operatorCertificate = route(put, "/v1/tls/certificate",
	serveMethod(admin.OperatorCertificate, bindOperatorCertificate, whole))

// bindOperatorCertificate takes requests from callers that may have secrets, and the operator from the
// certificate of the caller.
func bindOperatorCertificate(c *call, req *admin.OperatorCertificateRequest) error {
	err := allowSecrets(c)
	if err == nil {
		err = c.decodeBody(req)
	}
	req.Operator = operatorOf(c)
	return err
}

// RequestOperatorCertificate has the servers sign the certificate of an operator, whose key stays here.
func RequestOperatorCertificate(ctx context.Context, c *Client, r *admin.OperatorCertificateRequest) (
	*admin.OperatorCertificateResponse, error,
) {
	return operatorCertificate.send(ctx, c, request{body: r})
}
