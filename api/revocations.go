package api

import (
	"context"

	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/structs/cluster"
)

var revocationPut = NewEndpoint(Put, "/v1/tls/revocation",
	ServeMethod(cluster.CertificateRevoke, bindRevocation, Whole))

// bindRevocation takes the operator from the certificate of the caller, and not from the body.
func bindRevocation(c *Call, req *cluster.CertificateRevokeRequest) error {
	err := c.DecodeBody(req)
	req.Operator = operatorOf(c)
	return err
}

// operatorOf returns the identity in the certificate of the caller, "root" for the operator socket, and "" if
// nothing tells it.
func operatorOf(c *Call) string {
	if opsocket.Marked(c.Ctx()) {
		return cluster.OperatorRoot
	}
	if c.r.TLS == nil {
		return ""
	}
	id, ok := peertls.PeerOf(*c.r.TLS)
	if !ok {
		return ""
	}
	return id.String()
}

// RevokeCertificates revokes the certificates of a machine or an operator, or one certificate by its serial
// number. Each server closes their open connections when it has applied the entry.
func RevokeCertificates(ctx context.Context, c *Client, r *cluster.CertificateRevokeRequest) (
	*cluster.CertificateRevokeResponse, error,
) {
	return revocationPut.Send(ctx, c, Request{Body: r})
}

var revocationList = NewEndpoint(Get, "/v1/tls/revocations",
	ServeMethod(cluster.CertificateRevocations, nil,
		func(a *cluster.CertificateRevocationsResponse) []*cluster.Revocation { return a.Revocations }))

// Revocations lists the revocations by ID.
func Revocations(ctx context.Context, c *Client, q *Query) ([]*cluster.Revocation, *Meta, error) {
	return revocationList.Fetch(ctx, c, "", q)
}

var revocationDelete = NewEndpoint(Remove, "/v1/tls/revocation/{id}",
	ServeMethod(cluster.CertificateUnrevoke,
		WithID(func(req *cluster.CertificateUnrevokeRequest, id string) { req.ID = id }),
		Whole))

// DeleteRevocation deletes a revocation: the certificates are valid again until they end.
func DeleteRevocation(ctx context.Context, c *Client, id string) error {
	return revocationDelete.route.exec(ctx, c, Request{ID: id})
}
