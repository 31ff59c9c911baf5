package join

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/pki"
	"berth/server/authority"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// deposed is a server that does not lead any more, and has not applied the removal of an authority.
type deposed struct{}

func (deposed) VerifyLeader() error { return structs.Unavailablef("another server leads") }

func (deposed) Propose(context.Context, []byte) (uint64, any, error) {
	return 0, nil, structs.Unavailablef("another server leads")
}

// leading is a server that leads.
type leading struct{ deposed }

func (leading) VerifyLeader() error { return nil }

// requestOf returns the request of a caller for a certificate of the operator ann.
func requestOf(t *testing.T, caller string) *cluster.OperatorCertificateRequest {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := key.CSR(pki.Identity{Region: "global", Role: pki.RoleOperator, ID: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster.OperatorCertificateRequest{CSR: csr, Operator: caller}
}

// No entry of the log shows here that the server leads.
func TestSignOperator_SignsOnTheLeaderAlone(t *testing.T) {
	s := Signing{Leader: deposed{}, Region: "global"}
	req := requestOf(t, cluster.OperatorRoot)
	_, err := s.SignOperator(t.Context(), req, &cluster.OperatorCertificateResponse{})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("%v; expected unavailable", err)
	}
}

// signAnn asks a leader without an authority: the error is precondition once all checks are passed.
func signAnn(t *testing.T, store *state.Store, req *cluster.OperatorCertificateRequest) error {
	t.Helper()
	s := Signing{Store: store, Leader: leading{}, Region: "global"}
	s.Rows = authority.RowsOf(store)
	_, err := s.SignOperator(t.Context(), req, &cluster.OperatorCertificateResponse{})
	return err
}

// A stolen certificate of 30 days signs itself none that is valid for longer.
func TestSignOperator_ForItselfIsShort(t *testing.T) {
	const itself = "spiffe://global/operator/ann"
	for name, c := range map[string]struct {
		caller string
		ttl    time.Duration
		want   structs.Kind
	}{
		"itself, 30 days":  {itself, cluster.OperatorLife, structs.KindPrecondition},
		"itself, longer":   {itself, cluster.OperatorLife + 1, structs.KindDenied},
		"itself, default":  {itself, 0, structs.KindPrecondition},
		"root, a year":     {cluster.OperatorRoot, cluster.MaxOperatorLife, structs.KindPrecondition},
		"itself, too long": {itself, cluster.MaxOperatorLife + 1, structs.KindInvalid},
	} {
		req := requestOf(t, c.caller)
		req.TTL = c.ttl
		err := signAnn(t, state.New(), req)
		if !structs.IsKind(err, c.want) {
			t.Errorf("%s: %v; expected %s", name, err, c.want)
		}
	}
}

// The server that forwards the request may not have applied the revocation.
func TestSignOperator_DeniesARevokedName(t *testing.T) {
	for name, c := range map[string]struct {
		role, revoked string
		want          structs.Kind
	}{
		"the operator":          {cluster.RevokeOperator, "ann", structs.KindDenied},
		"another operator":      {cluster.RevokeOperator, "bob", structs.KindPrecondition},
		"a server of that name": {cluster.JoinServer, "ann", structs.KindPrecondition},
	} {
		store := state.New()
		err := store.Write(1, func(tx *state.WriteTx) error {
			return trust.Revoke(tx, &cluster.CertificateRevokeRequest{Role: c.role, Name: c.revoked})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, caller := range []string{"spiffe://global/operator/ann", cluster.OperatorRoot} {
			err := signAnn(t, store, requestOf(t, caller))
			if !structs.IsKind(err, c.want) {
				t.Errorf("%s is revoked, %s asks: %v; expected %s", name, caller, err, c.want)
			}
		}
	}
}

// A certificate that a leader signs while its clock is ahead is of use once the clock is right. After a long
// time off the cluster time is far behind: the certificate counts as one of a day all the same.
func TestSignOperator_BeginsByTheClusterTime(t *testing.T) {
	for name, c := range map[string]struct{ ahead, want time.Duration }{
		"the clock is 30 hours ahead": {30 * time.Hour, 30 * time.Hour},
		"the clock is behind":         {-2 * time.Hour, 0},
		"all were off for a year":     {365 * 24 * time.Hour, trust.RenewWithin},
	} {
		s := signingAlone(t, hclog.NewNullLogger())
		now := time.Now()
		_, err := fsm.Propose(t.Context(), s.Leader, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
			Clock: cluster.ClusterTime{Time: now.Add(-c.ahead).UnixNano()},
		})
		if err != nil {
			t.Fatal(err)
		}
		resp := &cluster.OperatorCertificateResponse{}
		_, err = s.SignOperator(t.Context(), requestOf(t, cluster.OperatorRoot), resp)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCertificates([]byte(resp.Certificate))
		if err != nil {
			t.Fatal(err)
		}
		if late := certs[0].NotBefore.Sub(now.Add(-pki.ClockSkew - c.want)).Abs(); late > time.Minute {
			t.Errorf("%s: it begins %s before now; expected an hour and %s", name, now.Sub(certs[0].NotBefore), c.want)
		}
	}
}
