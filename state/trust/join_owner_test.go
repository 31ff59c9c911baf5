package trust_test

import (
	"strings"
	"testing"

	"berth/state"
	"berth/state/trust"
	"berth/structs"
)

// A token of any name gives nobody the ID of a node that runs without a record: one with an own certificate
// before, or one whose record was forgotten or revoked.
func TestJoinToken_GivesARegisteredNodeAwayByItsNameAlone(t *testing.T) {
	late := 1000 + int64(trust.RenewWithin) + 1 // the certificate has lapsed
	for name, c := range map[string]struct {
		token   string // its NodeName
		id, key string
		now     int64
		record  bool
		allowed bool
		revoked bool
	}{
		"any name":                                     {"", "n1", "new", 2, false, false, false},
		"its name":                                     {"name-of-n1", "n1", "new", 2, false, true, false},
		"a node that is not registered":                {"", "n2", "new", 2, false, true, false},
		"its own key, late":                            {"", "n1", "own", late, true, true, false},
		"another key, late":                            {"", "n1", "new", late, true, false, false},
		"another key and its name, late":               {"name-of-n1", "n1", "new", late, true, true, false},
		"another key of no node, late":                 {"", "n2", "new", late, true, true, false},
		"another key, after a revocation":              {"", "n1", "new", 2, true, false, true},
		"another key and its name, after a revocation": {"name-of-n1", "n1", "new", 2, true, true, true},
	} {
		w := keyedFixture(t)
		do(w, state.NodeRegister, &structs.NodeRegisterRequest{Node: &structs.Node{
			ID: "n1", Name: "name-of-n1", SecretID: "s", Status: structs.NodeReady,
		}})
		if c.record {
			first := aJoinToken("first", 1)
			first.NodeName = "name-of-n1"
			do(w, trust.JoinTokenPut, first)
			own := aCertificate("first", c.id, "own")
			own.NodeName = first.NodeName
			do(w, trust.MachineCertificateSet, own)
		}
		if c.revoked {
			do(w, trust.Revoke, revokeNode(c.id, 2))
		}
		token := aJoinToken("t", 1)
		token.NodeName = c.token
		token.ExpireTime = late + 1
		do(w, trust.JoinTokenPut, token)
		use := aCertificate("t", c.id, c.key)
		use.NodeName = "name-of-n1"
		use.Now = c.now
		err := try(w, trust.MachineCertificateSet, use)
		if c.allowed && err != nil || !c.allowed && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: %v", name, err)
		}
		if !c.allowed && err != nil && !strings.Contains(err.Error(), "-node-name name-of-n1") {
			t.Errorf("%s: the error names no remedy: %v", name, err)
		}
	}
}
