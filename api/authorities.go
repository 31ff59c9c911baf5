package api

import (
	"context"

	"berth/structs/cluster"
)

var authorityReplace = NewEndpoint(Put, "/v1/join/authority",
	ServeMethod(cluster.AuthorityReplace, nil, Whole))

// ReplaceAuthority replaces the certificate authority of the cluster. The machines follow by themselves.
func ReplaceAuthority(ctx context.Context, c *Client) (*cluster.AuthorityReplaceResponse, error) {
	return authorityReplace.Send(ctx, c, Request{})
}

var authorityList = NewEndpoint(Get, "/v1/join/authorities",
	ServeMethod(cluster.AuthorityList, nil,
		func(a *cluster.AuthorityListResponse) []*cluster.AuthorityStub { return a.Authorities }))

// Authorities lists the authorities that are trusted: the one that signs, then the retired ones.
func Authorities(ctx context.Context, c *Client, q *Query) ([]*cluster.AuthorityStub, *Meta, error) {
	return authorityList.Fetch(ctx, c, "", q)
}

var authorityRemove = NewEndpoint(Remove, "/v1/join/authority/{id}",
	ServeMethod(cluster.AuthorityRemove,
		WithID(func(req *cluster.AuthorityRemoveRequest, id string) { req.ID = id }),
		Whole))

// RemoveAuthority ends the trust in a retired authority, and in those before it.
func RemoveAuthority(ctx context.Context, c *Client, id string) (*cluster.AuthorityRemoveResponse, error) {
	return authorityRemove.Send(ctx, c, Request{ID: id})
}

var operatorCertificate = NewEndpoint(Put, "/v1/tls/certificate",
	ServeMethod(cluster.OperatorCertificate, bindOperatorCertificate, Whole))

// bindOperatorCertificate takes requests from callers that may have secrets, and the operator from the
// certificate of the caller.
func bindOperatorCertificate(c *Call, req *cluster.OperatorCertificateRequest) error {
	err := allowSecrets(c)
	if err == nil {
		err = c.DecodeBody(req)
	}
	req.Operator = operatorOf(c)
	return err
}

// RequestOperatorCertificate has the servers sign the certificate of an operator, whose key stays here.
func RequestOperatorCertificate(ctx context.Context, c *Client, r *cluster.OperatorCertificateRequest) (
	*cluster.OperatorCertificateResponse, error,
) {
	return operatorCertificate.Send(ctx, c, Request{Body: r})
}
