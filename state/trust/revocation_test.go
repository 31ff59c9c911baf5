package trust_test

import (
	"fmt"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

func revokeSerial(serial string) *cluster.CertificateRevokeRequest {
	return &cluster.CertificateRevokeRequest{Serial: serial}
}

// refOf is the certificate of a node with a key and a serial number.
func refOf(id, key, serial string) cluster.CertificateRef {
	return cluster.CertificateRef{
		Role:    cluster.JoinNode,
		ID:      id,
		Serial:  serial,
		KeyHash: []byte(key),
	}
}

// joinAs puts a token and joins with it as a node with a key.
func joinAs(w *fixture, token, id, key string) error {
	do(w, trust.JoinTokenPut, aJoinToken(token, 1))
	return try(w, trust.MachineCertificateSet, aCertificate(token, id, key))
}

func TestRevoked_NamesAMachineOrACertificate(t *testing.T) {
	w := newFixture(t)
	do(w, trust.Revoke, revokeNode("n1", 5))
	do(w, trust.Revoke, revokeSerial("00:AB"))
	do(w, trust.Revoke, &cluster.CertificateRevokeRequest{Role: cluster.RevokeOperator, Name: "ann"})
	ann := cluster.CertificateRef{Role: "operator", ID: "ann", Serial: "3", KeyHash: []byte("any")}
	bob := cluster.CertificateRef{Role: "operator", ID: "bob", Serial: "3", KeyHash: []byte("any")}
	operator := cluster.CertificateRef{Role: "operator", ID: "n1", Serial: "ab"}
	server := cluster.CertificateRef{Role: cluster.JoinServer, ID: "n1", Serial: "1"}
	for name, c := range map[string]struct {
		ref  cluster.CertificateRef
		want string
	}{
		"the node":                    {refOf("n1", "k", "1"), "node-n1"},
		"the serial of any role":      {operator, "serial-ab"},
		"another node":                {refOf("n2", "k", "1"), ""},
		"a server of the same name":   {server, ""},
		"the operator, of any key":    {ann, "operator-ann"},
		"another operator":            {bob, ""},
		"a node named as an operator": {refOf("ann", "k", "1"), ""},
		"another serial, longer":      {refOf("n2", "k", "ab0"), ""},
		"a node with the serial":      {refOf("n2", "k", "ab"), "serial-ab"},
		"a name that reads as serial": {refOf("ab", "k", "2"), ""},
	} {
		got := ""
		if r := trust.Revoked(w.Store.Read(), c.ref); r != nil {
			got = r.ID
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}

	do(w, trust.Unrevoke, &cluster.CertificateUnrevokeRequest{ID: "node-n1"})
	if trust.Revoked(w.Store.Read(), refOf("n1", "k", "1")) != nil {
		t.Error("a deleted revocation counts")
	}
	wantKind(t, try(w, trust.Unrevoke, &cluster.CertificateUnrevokeRequest{ID: "node-n1"}), structs.KindNotFound)
}

func TestRevoke_RejectsWhatNamesNoCertificate(t *testing.T) {
	w := newFixture(t)
	for name, r := range map[string]*cluster.CertificateRevokeRequest{
		"nothing":     {},
		"a role":      {Role: "root", Name: "ann"},
		"no role":     {Name: "ann"},
		"no name":     {Role: cluster.JoinNode},
		"no operator": {Role: cluster.RevokeOperator},
		"both":        {Role: cluster.JoinNode, Name: "n1", Serial: "1"},
		"a sign":      {Serial: "-1"},
		"no digits":   {Serial: "::"},
		"words":       {Serial: "xyz"},
	} {
		err := try(w, trust.Revoke, r)
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v; expected invalid", name, err)
		}
	}
}

func TestRevoke_IsBounded(t *testing.T) {
	w := newFixture(t)
	err := w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
		for i := range trust.MaxRevocations {
			schema.Revocations.Put(tx, &cluster.Revocation{
				ID:     cluster.SerialRevocationID(fmt.Sprintf("%x", i+1)),
				Serial: fmt.Sprintf("%x", i+1),
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Index++
	wantKind(t, try(w, trust.Revoke, revokeNode("n1", 1)), structs.KindPrecondition)
	do(w, trust.Revoke, revokeSerial("1")) // again
	do(w, trust.Unrevoke, &cluster.CertificateUnrevokeRequest{ID: "serial-1"})
	do(w, trust.Revoke, revokeNode("n1", 1))
}

// A revoked machine renews never. It joins again with another key and a new token, at once.
func TestRevoke_TheMachineJoinsAgainWithAnotherKey(t *testing.T) {
	for name, revoke := range map[string]*cluster.CertificateRevokeRequest{
		"the machine": revokeNode("n1", 5),
		"the serial":  revokeSerial("1"),
	} {
		w := newFixture(t)
		if err := joinAs(w, "t1", "n1", "stolen"); err != nil {
			t.Fatal(err)
		}
		do(w, trust.MachineCertificateSet, aCertificate("", "n1", "stolen"))
		serial := trust.MachineCertificate(w.Store.Read(), cluster.JoinNode, "n1").Serial
		if revoke.Serial != "" {
			revoke.Serial = serial
		}
		do(w, trust.Revoke, revoke)
		wantKind(t, try(w, trust.MachineCertificateSet, aCertificate("", "n1", "stolen")), structs.KindDenied)
		wantKind(t, joinAs(w, "t2", "n1", "stolen"), structs.KindDenied)

		next := aCertificate("t2", "n1", "new")
		next.Serial = "2"
		if err := try(w, trust.MachineCertificateSet, next); err != nil {
			t.Errorf("%s: it joins again: %v", name, err)
		}
		renewal := aCertificate("", "n1", "new")
		renewal.Serial = "3"
		if err := try(w, trust.MachineCertificateSet, renewal); err != nil {
			t.Errorf("%s: it renews with its new key: %v", name, err)
		}
		tx := w.Store.Read()
		if trust.Revoked(tx, refOf("n1", "new", "3")) != nil || trust.ShutOut(tx, "n1") != nil {
			t.Errorf("%s: the new certificate is revoked", name)
		}
		if trust.Revoked(tx, refOf("n1", "stolen", serial)) == nil {
			t.Errorf("%s: the stolen certificate is valid again", name)
		}
	}
}

func TestRevoke_AgainEndsTheNewKey(t *testing.T) {
	w := newFixture(t)
	do(w, trust.Revoke, revokeNode("n1", 5))
	if err := joinAs(w, "t", "n1", "new"); err != nil {
		t.Fatal(err)
	}
	if trust.ShutOut(w.Store.Read(), "n1") != nil {
		t.Error("the node has joined again, and is shut out")
	}
	do(w, trust.Revoke, revokeNode("n1", 6))
	tx := w.Store.Read()
	if trust.Revoked(tx, refOf("n1", "new", "1")) == nil || trust.ShutOut(tx, "n1") == nil {
		t.Error("the new key is valid after a second revocation")
	}
}

// A restore keeps the revocations of both states, and voids the join tokens of the archive.
func TestRecover_KeepsRevocationsAndVoidsTokens(t *testing.T) {
	archive, before := newFixture(t), newFixture(t)
	for _, w := range []*fixture{archive, before} {
		if err := joinAs(w, "t", "n1", "first"); err != nil {
			t.Fatal(err)
		}
		do(w, trust.Revoke, revokeNode("both", 5))
	}
	do(archive, trust.JoinTokenPut, aJoinToken("old", 3))
	do(before, trust.JoinTokenPut, aJoinToken("old", 1))
	do(archive, trust.Revoke, revokeNode("only-archive", 5))
	do(before, trust.Revoke, revokeNode("only-before", 6))
	do(before, trust.Revoke, revokeNode("both", 9))
	do(before, trust.Revoke, revokeNode("n1", 9))
	if err := joinAs(before, "t2", "n1", "second"); err != nil {
		t.Fatal(err)
	}

	err := archive.Store.Write(archive.Index+1, func(tx *state.WriteTx) error {
		state.Recover(tx, before.Store.Read(), 10)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tx := archive.Store.Read()
	got := map[string]int64{}
	for r := range trust.Revocations(tx) {
		got[r.ID] = r.Time
	}
	want := map[string]int64{"node-both": 9, "node-only-archive": 5, "node-only-before": 6, "node-n1": 9}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for token := range trust.JoinTokens(tx) {
		t.Errorf("the join token %s is left", token.ID)
	}
	if trust.Revoked(tx, refOf("n1", "first", "1")) == nil ||
		trust.Revoked(tx, refOf("n1", "second", "1")) != nil {
		t.Error("the node with its second key is revoked, or with its first one it is not")
	}
	if c := trust.MachineCertificate(tx, cluster.JoinNode, "n1"); string(c.KeyHash) != "second" {
		t.Errorf("the record of the node has the key %s", c.KeyHash)
	}
	if faults := state.Check(tx); faults != nil {
		t.Error(faults)
	}
}
