package operator

import (
	"context"

	"berth/api"
	"berth/structs/cluster"
)

var authorityReplace = api.NewEndpoint(&table, api.Put, "/v1/join/authority",
	api.ServeMethod(cluster.AuthorityReplace, nil, api.Whole))

// ReplaceAuthority replaces the certificate authority of the cluster. The machines follow by themselves.
func ReplaceAuthority(ctx context.Context, c *api.Client) (*cluster.AuthorityReplaceResponse, error) {
	return authorityReplace.Send(ctx, c, api.Request{})
}

var authorityList = api.NewEndpoint(&table, api.Get, "/v1/join/authorities",
	api.ServeMethod(cluster.AuthorityList, nil,
		func(a *cluster.AuthorityListResponse) []*cluster.AuthorityStub { return a.Authorities }))

// Authorities lists the authorities that are trusted: the one that signs, then the retired ones.
func Authorities(ctx context.Context, c *api.Client, q *api.Query) (
	[]*cluster.AuthorityStub, *api.Meta, error,
) {
	return authorityList.Fetch(ctx, c, "", q)
}

var authorityRemove = api.NewEndpoint(&table, api.Remove, "/v1/join/authority/{id}",
	api.ServeMethod(cluster.AuthorityRemove,
		api.WithID(func(req *cluster.AuthorityRemoveRequest, id string) { req.ID = id }),
		api.Whole))

// RemoveAuthority ends the trust in a retired authority, and in those before it.
func RemoveAuthority(ctx context.Context, c *api.Client, id string) (
	*cluster.AuthorityRemoveResponse, error,
) {
	return authorityRemove.Send(ctx, c, api.Request{ID: id})
}

var operatorCertificate = api.NewEndpoint(&table, api.Put, "/v1/tls/certificate",
	api.ServeMethod(cluster.OperatorCertificate, bindOperatorCertificate, api.Whole))

// bindOperatorCertificate takes requests from callers that may have secrets, and the operator from the
// certificate of the caller.
func bindOperatorCertificate(c *api.Call, req *cluster.OperatorCertificateRequest) error {
	err := api.AllowSecrets(c)
	if err == nil {
		err = c.DecodeBody(req)
	}
	req.Operator = operatorOf(c)
	return err
}

// RequestOperatorCertificate has the servers sign the certificate of an operator, whose key stays here.
func RequestOperatorCertificate(ctx context.Context, c *api.Client, r *cluster.OperatorCertificateRequest) (
	*cluster.OperatorCertificateResponse, error,
) {
	return operatorCertificate.Send(ctx, c, api.Request{Body: r})
}
