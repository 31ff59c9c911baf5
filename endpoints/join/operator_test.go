package join

import (
	"context"
	"testing"

	"berth/internal/pki"
	"berth/structs"
)

// deposed is a server that does not lead any more, and has not applied the removal of an authority.
type deposed struct{}

func (deposed) VerifyLeader() error { return structs.Unavailablef("another server leads") }

func (deposed) Propose(context.Context, []byte) (uint64, any, error) {
	return 0, nil, structs.Unavailablef("another server leads")
}

// No entry of the log shows here that the server leads.
func TestSignOperator_SignsOnTheLeaderAlone(t *testing.T) {
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleOperator, ID: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	s := Signing{Leader: deposed{}, Region: "global"}
	req := &structs.OperatorCertificateRequest{CSR: csr, Operator: structs.OperatorRoot}
	_, err = s.SignOperator(t.Context(), req, &structs.OperatorCertificateResponse{})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("%v; expected unavailable", err)
	}
}
