package trust_test

import (
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

func TestJoinToken_IsUsedAsOftenAsItSays(t *testing.T) {
	w := keyedFixture(t)
	do(w, trust.JoinTokenPut, aJoinToken("t", 2))
	do(w, trust.MachineCertificateSet, aCertificate("t", "n1", "k1"))
	do(w, trust.MachineCertificateSet, aCertificate("t", "n2", "k2"))
	err := try(w, trust.MachineCertificateSet, aCertificate("t", "n3", "k3"))
	wantKind(t, err, structs.KindDenied)
	if trust.MachineCertificate(w.Store.Read(), cluster.JoinNode, "n3") != nil {
		t.Error("the third node has a certificate")
	}
}

func TestJoinToken_IsDeniedBeyondItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		token func(*cluster.JoinTokenRequest)
		use   func(*cluster.MachineCertificateRequest)
	}{
		"another secret": {nil, func(r *cluster.MachineCertificateRequest) { r.TokenHash = []byte("x") }},
		"no secret":      {nil, func(r *cluster.MachineCertificateRequest) { r.TokenHash = nil }},
		"another token":  {nil, func(r *cluster.MachineCertificateRequest) { r.TokenID = "u" }},
		"at its end":     {nil, func(r *cluster.MachineCertificateRequest) { r.Now = 100 }},
		"another role":   {nil, func(r *cluster.MachineCertificateRequest) { r.Role = cluster.JoinServer }},
		"another name": {
			func(r *cluster.JoinTokenRequest) { r.NodeName = "web" },
			func(r *cluster.MachineCertificateRequest) { r.NodeName = "db" },
		},
		"another pool": {
			func(r *cluster.JoinTokenRequest) { r.NodePool = "gpu" },
			func(r *cluster.MachineCertificateRequest) { r.NodePool = "default" },
		},
		"the ID of another node": {nil, func(r *cluster.MachineCertificateRequest) { r.ID = "taken" }},
	} {
		w := keyedFixture(t)
		do(w, trust.JoinTokenPut, aJoinToken("first", 1))
		do(w, trust.MachineCertificateSet, aCertificate("first", "taken", "its key"))
		token := aJoinToken("t", 1)
		if c.token != nil {
			c.token(token)
		}
		do(w, trust.JoinTokenPut, token)
		use := aCertificate("t", "n1", "k")
		c.use(use)
		err := try(w, trust.MachineCertificateSet, use)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v; expected denied", name, err)
		}
	}
}

func TestMachineCertificate_BindsTheFirstPool(t *testing.T) {
	for name, c := range map[string]struct{ token, asked, first, want string }{
		"of the token":               {"gpu", "gpu", "gpu", "gpu"},
		"that the node asked for":    {"", "gpu", "gpu", "gpu"},
		"in which it has registered": {"", "", "web", "web"},
	} {
		w := keyedFixture(t)
		token := aJoinToken("t", 1)
		token.NodePool = c.token
		do(w, trust.JoinTokenPut, token)
		use := aCertificate("t", "n1", "k")
		use.NodePool = c.asked
		do(w, trust.MachineCertificateSet, use)
		for _, pool := range []string{c.first, "secrets"} { // the endpoint rejects the second one
			node := &structs.Node{ID: "n1", SecretID: "s", NodePool: pool}
			do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: node})
		}
		do(w, trust.MachineCertificateSet, aCertificate("", "n1", "k"))
		if got := trust.MachineCertificate(w.Store.Read(), cluster.JoinNode, "n1").NodePool; got != c.want {
			t.Errorf("%s: the node is bound to the pool %q, want %q", name, got, c.want)
		}
	}
}

func TestJoinTokenPut_DeletesExpiredTokens(t *testing.T) {
	w := keyedFixture(t)
	do(w, trust.JoinTokenPut, aJoinToken("old", 1))
	later := aJoinToken("new", 1)
	later.Now = 100
	later.ExpireTime = 200
	do(w, trust.JoinTokenPut, later)
	err := try(w, trust.JoinTokenDelete, &cluster.JoinTokenDeleteRequest{ID: "old"})
	wantKind(t, err, structs.KindNotFound)
	do(w, trust.JoinTokenDelete, &cluster.JoinTokenDeleteRequest{ID: "new"})
}

func TestMachineCertificate_RenewsWithItsKeyWithinThirtyDays(t *testing.T) {
	w := keyedFixture(t)
	token := aJoinToken("t", 1)
	token.NodePool = "gpu"
	do(w, trust.JoinTokenPut, token)
	first := aCertificate("t", "n1", "k")
	first.NodePool = "gpu"
	do(w, trust.MachineCertificateSet, first)

	again := aCertificate("", "n1", "k")
	again.Now = first.NotAfter + int64(trust.RenewWithin)
	again.NotAfter = again.Now + 1000
	do(w, trust.MachineCertificateSet, again)
	row := trust.MachineCertificate(w.Store.Read(), cluster.JoinNode, "n1")
	if row.NodePool != "gpu" || row.NotAfter != again.NotAfter {
		t.Errorf("got %+v; expected the limits of the token and the new end", row)
	}

	late := aCertificate("", "n1", "k")
	late.Now = again.NotAfter + int64(trust.RenewWithin) + 1
	err := try(w, trust.MachineCertificateSet, late)
	if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), "join with a new token") {
		t.Errorf("more than 30 days later: %v", err)
	}
	wantKind(t, try(w, trust.MachineCertificateSet, aCertificate("", "n1", "other")), structs.KindDenied)
	wantKind(t, try(w, trust.MachineCertificateSet, aCertificate("", "n2", "k")), structs.KindDenied)
}

func TestMachineCertificate_IsForgottenWhenItCannotRenew(t *testing.T) {
	w := keyedFixture(t)
	do(w, trust.JoinTokenPut, aJoinToken("t1", 1))
	do(w, trust.MachineCertificateSet, aCertificate("t1", "n1", "k"))
	later := aJoinToken("t2", 1)
	later.ExpireTime = int64(60 * 24 * time.Hour)
	do(w, trust.JoinTokenPut, later)
	next := aCertificate("t2", "n2", "k")
	next.Now = 1000 + int64(trust.RenewWithin) + 1
	next.NotAfter = next.Now + 1000
	do(w, trust.MachineCertificateSet, next)
	tx := w.Store.Read()
	old := trust.MachineCertificate(tx, cluster.JoinNode, "n1")
	if old != nil || trust.MachineCertificate(tx, cluster.JoinNode, "n2") == nil {
		t.Error("the record of n1 stays, or that of n2 does not")
	}
}
