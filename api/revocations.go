package api

import (
	"context"

	"berth/internal/opsocket"
	"berth/internal/peertls"
	"berth/structs/admin"
)

var revocationPut = route(put, "/v1/tls/revocation",
	serveMethod(admin.CertificateRevoke, bindRevocation, whole))

// bindRevocation takes the operator from the certificate of the caller, and not from the body.
func bindRevocation(c *call, req *admin.CertificateRevokeRequest) error {
	err := c.decodeBody(req)
	req.Operator = operatorOf(c)
	return err
}

// operatorOf returns the identity in the certificate of the caller, "root" for the operator socket, and "" if
// nothing tells it.
func operatorOf(c *call) string {
	if opsocket.Marked(c.ctx()) {
		return admin.OperatorRoot
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
func RevokeCertificates(ctx context.Context, c *Client, r *admin.CertificateRevokeRequest) (
	*admin.CertificateRevokeResponse, error,
) {
	return revocationPut.send(ctx, c, request{body: r})
}

var revocationList = route(get, "/v1/tls/revocations",
	serveMethod(admin.CertificateRevocations, nil,
		func(a *admin.CertificateRevocationsResponse) []*admin.Revocation { return a.Revocations }))

// Revocations lists the revocations by ID.
func Revocations(ctx context.Context, c *Client, q *Query) ([]*admin.Revocation, *Meta, error) {
	return revocationList.fetch(ctx, c, "", q)
}

var revocationDelete = route(remove, "/v1/tls/revocation/{id}",
	serveMethod(admin.CertificateUnrevoke,
		withID(func(req *admin.CertificateUnrevokeRequest, id string) { req.ID = id }),
		whole))

// DeleteRevocation deletes a revocation: the certificates are valid again until they end.
func DeleteRevocation(ctx context.Context, c *Client, id string) error {
	return revocationDelete.route.exec(ctx, c, request{id: id})
}
