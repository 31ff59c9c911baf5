package operator

import (
	"context"

	"berth/api"
	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/structs/cluster"
)

var revocationPut = api.NewEndpoint(&table, api.Put, "/v1/tls/revocation",
	api.ServeMethod(cluster.CertificateRevoke, bindRevocation, api.Whole))

// bindRevocation takes the operator from the certificate of the caller, and not from the body.
func bindRevocation(c *api.Call, req *cluster.CertificateRevokeRequest) error {
	err := c.DecodeBody(req)
	req.Operator = operatorOf(c)
	return err
}

// operatorOf returns the identity in the certificate of the caller, "root" for the operator socket, and "" if
// nothing tells it.
func operatorOf(c *api.Call) string {
	if opsocket.Marked(c.Ctx()) {
		return cluster.OperatorRoot
	}
	if c.Request.TLS == nil {
		return ""
	}
	id, ok := peertls.PeerOf(*c.Request.TLS)
	if !ok {
		return ""
	}
	return id.String()
}

// RevokeCertificates revokes the certificates of a machine or an operator, or one certificate by its serial
// number. Each server closes their open connections when it has applied the entry.
func RevokeCertificates(ctx context.Context, c *api.Client, r *cluster.CertificateRevokeRequest) (
	*cluster.CertificateRevokeResponse, error,
) {
	return revocationPut.Send(ctx, c, api.Request{Body: r})
}

var revocationList = api.NewEndpoint(&table, api.Get, "/v1/tls/revocations",
	api.ServeMethod(cluster.CertificateRevocations, nil,
		func(a *cluster.CertificateRevocationsResponse) []*cluster.Revocation { return a.Revocations }))

// Revocations lists the revocations by ID.
func Revocations(ctx context.Context, c *api.Client, q *api.Query) ([]*cluster.Revocation, *api.Meta, error) {
	return revocationList.Fetch(ctx, c, "", q)
}

var revocationDelete = api.NewEndpoint(&table, api.Remove, "/v1/tls/revocation/{id}",
	api.ServeMethod(cluster.CertificateUnrevoke,
		api.WithID(func(req *cluster.CertificateUnrevokeRequest, id string) { req.ID = id }),
		api.Whole))

// DeleteRevocation deletes a revocation: the certificates are valid again until they end.
func DeleteRevocation(ctx context.Context, c *api.Client, id string) error {
	return revocationDelete.Exec(ctx, c, api.Request{ID: id})
}
