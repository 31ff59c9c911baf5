package clitest

import (
	"context"
	"strings"
	"time"

	"berth/api/apitest"
	"berth/internal/pki"
	"berth/structs"
	"berth/structs/admin"
)

// answerAuthorities answers the requests about authorities. One signs, and two are retired.
func (w *Cluster) answerAuthorities() {
	stub := func(digit string, age time.Duration) *admin.AuthorityStub {
		return &admin.AuthorityStub{
			ID:           strings.Repeat(digit, 64),
			Subject:      "CN=berth CA " + digit,
			CertPEM:      "the certificate of " + digit + "\n",
			CreateTime:   Today.Add(-age).UnixNano(),
			RetireTime:   Today.Add(-age + 24*time.Hour).UnixNano(),
			TrustedUntil: Today.Add(-age + 31*24*time.Hour).UnixNano(),
		}
	}
	apitest.On(w.Caller, admin.AuthorityReplace,
		func(context.Context, *structs.WriteRequest) (*admin.AuthorityReplaceResponse, error) {
			return &admin.AuthorityReplaceResponse{
				ID:           strings.Repeat("d", 64),
				FormerID:     strings.Repeat("c", 64),
				TrustedUntil: Today.Add(30 * 24 * time.Hour).UnixNano(),
			}, nil
		})

	apitest.On(w.Caller, admin.AuthorityList,
		func(context.Context, *structs.QueryRequest) (*admin.AuthorityListResponse, error) {
			active := stub("c", time.Hour)
			active.RetireTime = 0
			return &admin.AuthorityListResponse{Authorities: []*admin.AuthorityStub{
				active, stub("b", 24*time.Hour), stub("a", 48*time.Hour),
			}}, nil
		})

	apitest.On(w.Caller, admin.AuthorityRemove,
		func(context.Context, *admin.AuthorityRemoveRequest) (*admin.AuthorityRemoveResponse, error) {
			return &admin.AuthorityRemoveResponse{JoinTokens: 2}, nil
		})

	// The certificate is not one: the command writes what the servers send.
	apitest.On(w.Caller, admin.OperatorCertificate,
		func(
			_ context.Context, r *admin.OperatorCertificateRequest,
		) (*admin.OperatorCertificateResponse, error) {
			csr, err := pki.ParseCSR(r.CSR)
			if err != nil {
				return nil, err
			}
			return &admin.OperatorCertificateResponse{
				Certificate: "the certificate of " + csr.Identity.String() + "\n",
				Authorities: "the authorities\n",
				Serial:      "5f0a90aa",
				NotAfter:    Today.Add(r.TTL).UnixNano(),
			}, nil
		})
}
