package api

import (
	"context"

	"berth/structs/admin"
)

var authorityReplace = NewEndpoint(Put, "/v1/join/authority",
	ServeMethod(admin.AuthorityReplace, nil, Whole))

// ReplaceAuthority replaces the certificate authority of the cluster. The machines follow by themselves.
func ReplaceAuthority(ctx context.Context, c *Client) (*admin.AuthorityReplaceResponse, error) {
	return authorityReplace.Send(ctx, c, Request{})
}

var authorityList = NewEndpoint(Get, "/v1/join/authorities",
	ServeMethod(admin.AuthorityList, nil,
		func(a *admin.AuthorityListResponse) []*admin.AuthorityStub { return a.Authorities }))

// Authorities lists the authorities that are trusted: the one that signs, then the retired ones.
func Authorities(ctx context.Context, c *Client, q *Query) ([]*admin.AuthorityStub, *Meta, error) {
	return authorityList.Fetch(ctx, c, "", q)
}

var authorityRemove = NewEndpoint(Remove, "/v1/join/authority/{id}",
	ServeMethod(admin.AuthorityRemove,
		WithID(func(req *admin.AuthorityRemoveRequest, id string) { req.ID = id }),
		Whole))

// RemoveAuthority ends the trust in a retired authority, and in those before it.
func RemoveAuthority(ctx context.Context, c *Client, id string) (*admin.AuthorityRemoveResponse, error) {
	return authorityRemove.Send(ctx, c, Request{ID: id})
}

var operatorCertificate = NewEndpoint(Put, "/v1/tls/certificate",
	ServeMethod(admin.OperatorCertificate, bindOperatorCertificate, Whole))

// bindOperatorCertificate takes requests from callers that may have secrets, and the operator from the
// certificate of the caller.
func bindOperatorCertificate(c *Call, req *admin.OperatorCertificateRequest) error {
	err := allowSecrets(c)
	if err == nil {
		err = c.DecodeBody(req)
	}
	req.Operator = operatorOf(c)
	return err
}

// RequestOperatorCertificate has the servers sign the certificate of an operator, whose key stays here.
func RequestOperatorCertificate(ctx context.Context, c *Client, r *admin.OperatorCertificateRequest) (
	*admin.OperatorCertificateResponse, error,
) {
	return operatorCertificate.Send(ctx, c, Request{Body: r})
}
