package server

import (
	"testing"

	"berth/internal/peertls"
	"berth/internal/pki"
	"berth/rpc"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// revokeNode revokes a node.
func (r *running) revokeNode(id string) {
	r.t.Helper()
	_, err := rpc.Call(r.t.Context(), r, cluster.CertificateRevoke,
		&cluster.CertificateRevokeRequest{Role: cluster.JoinNode, Name: id})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A revoked node neither renews nor joins with its key. With a new token and a new key it joins under its ID.
func TestRevoked_TheJoinPortTakesANewKeyAlone(t *testing.T) {
	noLeaks(t)
	r, server := joinable(t)
	server.SetRevoked(func(c cluster.CertificateRef) *cluster.Revocation {
		return trust.Revoked(r.store.Read(), c)
	})
	answer, key, err := r.join(r.token(nodeToken()), "n1")
	if err != nil {
		t.Fatal(err)
	}
	stolen := keysOf(t, answer, key, pki.RoleNode)
	ping := func(as *cluster.JoinResponse, key *pki.Key) error {
		return r.callAs(keysOf(t, as, key, pki.RoleNode),
			cluster.StatusPing.Name, &structs.QueryRequest{}, &structs.Empty{})
	}
	err = ping(answer, key)
	if err != nil {
		t.Fatal(err)
	}

	r.revokeNode("n1")
	err = ping(answer, key)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a call with the revoked certificate: %v", err)
	}
	csr, err := stolen.CSR()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rpc.Call(t.Context(), r, cluster.CertificateRenew,
		&cluster.CertificateRenewRequest{NodeID: "n1", CSR: csr})
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a renewal that another server forwards: %v; expected denied", err)
	}
	before := r.consensus.LastIndex()
	_, err = rpc.RenewCertificate(t.Context(), r.RPCAddr(), server.Client(peertls.Roles(pki.RoleServer)), csr)
	wantDenied(t, "a renewal at the port of machines without a certificate", err)
	if after := r.consensus.LastIndex(); after != before {
		t.Errorf("the renewal made %d entries of the log", after-before)
	}
	token := r.token(nodeToken())
	_, _, err = r.join(token, "n1", func(q *rpc.JoinRequest) { q.Key = key })
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("a join with the revoked key: %v; expected denied", err)
	}

	again, newKey, err := r.join(token, "n1")
	if err != nil {
		t.Fatalf("a join with a new key: %v", err)
	}
	err = ping(again, newKey)
	if err != nil {
		t.Errorf("a call with the new certificate: %v", err)
	}
	err = ping(answer, key)
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a call with the revoked certificate, after the node has joined again: %v", err)
	}
}
