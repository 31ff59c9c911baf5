package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/admin"
)

// answerRevocations answers the requests about revocations. There is one of a node that has joined again.
func (w *Cluster) answerRevocations() {
	apitest.On(w.Caller, admin.CertificateRevoke,
		func(_ context.Context, r *admin.CertificateRevokeRequest) (*admin.CertificateRevokeResponse, error) {
			id := admin.MachineRevocationID(r.Role, r.Name)
			if r.Serial != "" {
				id = admin.SerialRevocationID(r.Serial)
			}
			return &admin.CertificateRevokeResponse{ID: id}, nil
		})

	apitest.On(w.Caller, admin.CertificateRevocations,
		func(context.Context, *structs.QueryRequest) (*admin.CertificateRevocationsResponse, error) {
			return &admin.CertificateRevocationsResponse{Revocations: []*admin.Revocation{{
				ID:         "node-n1",
				Role:       admin.JoinNode,
				Name:       "n1",
				Reason:     "stolen",
				Operator:   "spiffe://global/operator/ann",
				Time:       Today.UnixNano(),
				NewKeyHash: []byte("key"),
			}}}, nil
		})

	apitest.On(w.Caller, admin.CertificateUnrevoke,
		func(context.Context, *admin.CertificateUnrevokeRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
