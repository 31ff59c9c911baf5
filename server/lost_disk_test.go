package server

import (
	"strings"
	"testing"

	"berth/rpc"
	"berth/structs/cluster"
)

// A machine whose disk is lost has a new key, and keeps its name: the error says how.
func TestJoin_AMachineWhoseDiskIsLostKeepsItsName(t *testing.T) {
	noLeaks(t)
	r, _ := joinable(t)
	for _, role := range []string{cluster.JoinServer, cluster.JoinNode} {
		req := cluster.JoinTokenCreateRequest{Role: role}
		_, _, err := r.join(r.token(req), "m1")
		if err != nil {
			t.Fatal(err)
		}
		next := r.token(req)
		_, _, err = r.join(next, "m1")
		wantDenied(t, "another key of a "+role, err)
		if err != nil && !strings.Contains(err.Error(), "`berth tls revoke -"+role+" m1`") {
			t.Errorf("the error does not say how the %s keeps its name: %v", role, err)
		}

		_, err = rpc.Call(t.Context(), r, cluster.CertificateRevoke,
			&cluster.CertificateRevokeRequest{Role: role, Name: "m1"})
		if err == nil {
			_, _, err = r.join(next, "m1")
		}
		if err != nil {
			t.Errorf("a %s after its revocation: %v", role, err)
		}
	}
}
