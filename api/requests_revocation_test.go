package api_test

import (
	"time"

	"berth/structs"
	"berth/structs/cluster"
)

// revocationCalls has the requests to the routes of revocations and authorities.
func revocationCalls() map[string]routeCall {
	return map[string]routeCall{
		"PUT /v1/tls/revocation": {
			path: "/v1/tls/revocation",
			body: `{"Role":"node","Name":"n1","Reason":"stolen","Operator":"somebody else"}`,
			rpc:  "Certificate.Revoke",
			request: &cluster.CertificateRevokeRequest{
				Role:   "node",
				Name:   "n1",
				Reason: "stolen",
			},
		},
		"GET /v1/tls/revocations": {
			path:    "/v1/tls/revocations",
			rpc:     "Certificate.Revocations",
			request: &structs.QueryRequest{},
		},
		"DELETE /v1/tls/revocation/{id}": {
			path:    "/v1/tls/revocation/node-n1",
			rpc:     "Certificate.Unrevoke",
			request: &cluster.CertificateUnrevokeRequest{ID: "node-n1"},
		},
		"PUT /v1/tls/certificate": {
			path: "/v1/tls/certificate",
			body: `{"CSR":"Y3Ny","TTL":60000000000,"Operator":"root"}`,
			rpc:  "Certificate.Operator",
			request: &cluster.OperatorCertificateRequest{
				CSR: []byte("csr"),
				TTL: time.Minute,
			},
		},
		"PUT /v1/join/authority": {
			path:    "/v1/join/authority",
			rpc:     "Authority.Replace",
			request: &structs.WriteRequest{},
		},
		"GET /v1/join/authorities": {
			path:    "/v1/join/authorities",
			rpc:     "Authority.List",
			request: &structs.QueryRequest{},
		},
		"DELETE /v1/join/authority/{id}": {
			path:    "/v1/join/authority/a",
			rpc:     "Authority.Remove",
			request: &cluster.AuthorityRemoveRequest{ID: "a"},
		},
	}
}
