package server

import (
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/pki"
	"berth/rpc"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// callPlain calls a method of the server without TLS.
func (r *running) callPlain(method string, req, resp any) error {
	pool := rpc.NewPool(rpc.Dial, hclog.NewNullLogger(), nil)
	defer pool.Close()
	return pool.Call(r.t.Context(), r.RPCAddr(), method, req, resp)
}

// With prefer everybody who reaches the port may call without TLS. The certificate of a server gives its
// holder the key-encryption key and the key of the gossip.
func TestJoin_WithPreferNoOtherBecomesAServer(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t, func(c *Config) { c.RequireTLS = false })
	made := r.token(cluster.JoinTokenCreateRequest{Role: cluster.JoinServer})

	listed := &cluster.JoinTokenListResponse{}
	err := r.callPlain(cluster.JoinTokenList.Name, &structs.QueryRequest{}, listed)
	if err != nil || len(listed.Tokens) != 1 {
		t.Fatalf("%d tokens, %v; expected one", len(listed.Tokens), err)
	}
	if len(listed.Tokens[0].Hash) > 0 {
		t.Error("the list of the tokens has the hash of a secret")
	}

	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleServer, ID: "other"})
	if err != nil {
		t.Fatal(err)
	}
	for row := range trust.JoinTokens(r.store.Read()) { // the hash may be known from elsewhere
		err = r.callPlain(cluster.CertificateSign.Name, &cluster.CertificateSignRequest{
			TokenID:   row.ID,
			TokenHash: row.Hash,
			CSR:       csr,
		}, &cluster.CertificateSignResponse{})
	}
	wantDenied(t, "a signature without TLS, with the hash of a token", err)

	answer, _, err := r.join(made, "s2")
	if err != nil || answer.Certificate == "" {
		t.Errorf("a server that joins with the token: %v", err)
	}
}
