package server

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// A machine without a certificate may ask for one. A denied request makes no entry of the log.
func TestJoin_WritesNothingForADeniedRequest(t *testing.T) {
	noLeaks(t)
	r, server := joinable(t)
	used := r.token(nodeToken())
	_, _, err := r.join(used, "n1")
	if err != nil {
		t.Fatal(err)
	}
	good := r.token(nodeToken())
	unknown, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := unknown.CSR(pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	long := func(q *rpc.JoinRequest) { q.NodeName = strings.Repeat("x", structs.MaxName+1) }

	deny := func() (entries uint64) {
		before := r.consensus.LastIndex()
		_, _, err := r.join(used, "n2")
		wantDenied(t, "a used token", err)
		_, _, err = r.join(good, "n1")
		wantDenied(t, "the ID of another node", err)
		_, err = rpc.RenewCertificate(t.Context(), r.RPCAddr(), server.Client(peertls.Roles(pki.RoleServer)), csr)
		wantDenied(t, "a renewal with another key", err)
		_, _, err = r.join(good, "n2", long)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("a long name: %v; expected invalid", err)
		}
		return r.consensus.LastIndex() - before
	}
	// The leader makes entries of its own, a few at its begin and one each 20 seconds.
	entries := deny()
	for tries := 1; entries > 0 && tries < 10; tries++ {
		entries = deny()
	}
	if entries > 0 {
		t.Errorf("the denied requests made %d entries of the log", entries)
	}
}

func wantDenied(t *testing.T, name string, err error) {
	t.Helper()
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("%s: %v; expected denied", name, err)
	}
}

// With prefer the roles do not decide, and whoever reaches the port may call without TLS.
func TestJoinToken_NeedsACertificateAlsoWithPrefer(t *testing.T) {
	noLeaks(t)
	r, server := joinable(t, func(c *Config) { c.RequireTLS = false })
	ask := func(dial rpc.Dialer, role string) error {
		pool := rpc.NewPool(dial, hclog.NewNullLogger(), nil)
		defer pool.Close()
		return pool.Call(t.Context(), r.RPCAddr(), cluster.JoinTokenCreate.Name,
			&cluster.JoinTokenCreateRequest{Role: role}, &cluster.JoinTokenCreateResponse{})
	}
	secured := rpc.SecureDialer(rpc.Dial, server.Client(peertls.Roles(pki.RoleServer)), false)
	for _, role := range []string{cluster.JoinServer, cluster.JoinNode} {
		wantDenied(t, "the token of a "+role+" without TLS", ask(rpc.Dial, role))
		err := ask(secured, role)
		if err != nil {
			t.Errorf("the token of a %s, as a server: %v", role, err)
		}
	}
}
