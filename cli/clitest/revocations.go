package clitest

import (
	"context"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
)

// answerRevocations answers the requests about revocations. There is one of a node that has joined again.
func (w *Cluster) answerRevocations() {
	apitest.On(w.Caller, cluster.CertificateRevoke,
		func(_ context.Context, r *cluster.CertificateRevokeRequest) (*cluster.CertificateRevokeResponse, error) {
			id := cluster.MachineRevocationID(r.Role, r.Name)
			if r.Serial != "" {
				id = cluster.SerialRevocationID(r.Serial)
			}
			return &cluster.CertificateRevokeResponse{ID: id}, nil
		})

	apitest.On(w.Caller, cluster.CertificateRevocations,
		func(context.Context, *structs.QueryRequest) (*cluster.CertificateRevocationsResponse, error) {
			return &cluster.CertificateRevocationsResponse{Revocations: []*cluster.Revocation{{
				ID:         "node-n1",
				Role:       cluster.JoinNode,
				Name:       "n1",
				Reason:     "stolen",
				Operator:   "spiffe://global/operator/ann",
				Time:       Today.UnixNano(),
				NewKeyHash: []byte("key"),
			}}}, nil
		})

	apitest.On(w.Caller, cluster.CertificateUnrevoke,
		func(context.Context, *cluster.CertificateUnrevokeRequest) (*structs.Empty, error) {
			return &structs.Empty{}, nil
		})
}
