package clitest

import (
	"context"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/cluster"
)

// answerAuthorities answers the requests about authorities. One signs, and two are retired.
func (w *Cluster) answerAuthorities() {
	stub := func(digit string, age time.Duration) *cluster.AuthorityStub {
		return &cluster.AuthorityStub{
			ID:           strings.Repeat(digit, 64),
			Subject:      "CN=berth CA " + digit,
			CertPEM:      "the certificate of " + digit + "\n",
			CreateTime:   Today.Add(-age).UnixNano(),
			RetireTime:   Today.Add(-age + 24*time.Hour).UnixNano(),
			TrustedUntil: Today.Add(-age + 31*24*time.Hour).UnixNano(),
		}
	}
	apitest.On(w.Caller, cluster.AuthorityReplace,
		func(context.Context, *structs.WriteRequest) (*cluster.AuthorityReplaceResponse, error) {
			return &cluster.AuthorityReplaceResponse{
				ID:           strings.Repeat("d", 64),
				FormerID:     strings.Repeat("c", 64),
				TrustedUntil: Today.Add(30 * 24 * time.Hour).UnixNano(),
			}, nil
		})

	apitest.On(w.Caller, cluster.AuthorityList,
		func(context.Context, *structs.QueryRequest) (*cluster.AuthorityListResponse, error) {
			active := stub("c", time.Hour)
			active.RetireTime = 0
			return &cluster.AuthorityListResponse{Authorities: []*cluster.AuthorityStub{
				active, stub("b", 24*time.Hour), stub("a", 48*time.Hour),
			}}, nil
		})

	apitest.On(w.Caller, cluster.AuthorityRemove,
		func(context.Context, *cluster.AuthorityRemoveRequest) (*cluster.AuthorityRemoveResponse, error) {
			return &cluster.AuthorityRemoveResponse{JoinTokens: 2}, nil
		})

	// The certificate is not one: the command writes what the servers send.
	apitest.On(w.Caller, cluster.OperatorCertificate,
		func(
			_ context.Context, r *cluster.OperatorCertificateRequest,
		) (*cluster.OperatorCertificateResponse, error) {
			csr, err := pki.ParseCSR(r.CSR)
			if err != nil {
				return nil, err
			}
			return &cluster.OperatorCertificateResponse{
				Certificate: "the certificate of " + csr.Identity.String() + "\n",
				Authorities: "the authorities\n",
				Serial:      "5f0a90aa",
				NotAfter:    Today.Add(r.TTL).UnixNano(),
			}, nil
		})
}
