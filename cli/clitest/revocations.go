package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
)

// answerRevocations answers the requests about revocations. There is one of a node that has joined again.
func (w *Cluster) answerRevocations() {
	apitest.On(w.Caller, structs.CertificateRevoke,
		func(_ context.Context, r *structs.CertificateRevokeRequest) (*structs.CertificateRevokeResponse, error) {
			id := structs.MachineRevocationID(r.Role, r.Name)
			if r.Serial != "" {
				id = structs.SerialRevocationID(r.Serial)
			}
			return &structs.CertificateRevokeResponse{ID: id}, nil
		})

	apitest.On(w.Caller, structs.CertificateRevocations,
		func(context.Context, *structs.QueryRequest) (*structs.CertificateRevocationsResponse, error) {
			return &structs.CertificateRevocationsResponse{Revocations: []*structs.Revocation{{
				ID:         "node-n1",
				Role:       structs.JoinNode,
				Name:       "n1",
				Reason:     "stolen",
				Operator:   "spiffe://global/operator/ann",
				Time:       Today.UnixNano(),
				NewKeyHash: []byte("key"),
			}}}, nil
		})

	apitest.On(w.Caller, structs.CertificateUnrevoke,
		func(context.Context, *structs.CertificateUnrevokeRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
