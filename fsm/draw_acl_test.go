package fsm

import (
	"maps"

	"berth/state"
	"berth/structs/access"
)

// aclDraws draws entries about few policies, roles and tokens, so that many of them meet.
var aclDraws = map[string]func(d dice, tx *state.ReadTx) ([]byte, error){
	"ACLBootstrap": func(d dice, tx *state.ReadTx) ([]byte, error) {
		r := &access.BootstrapChange{
			Token: &access.Token{
				AccessorID: d.of("a1", "a2"),
				SecretHash: []byte(d.of("s1", "s2", "s3", "s4")),
				Type:       access.TypeManagement,
			},
			Now: d.now().Now,
		}
		if d.flip() {
			r.ResetIndex = state.ACLBootstrapped(tx)
		}
		return ACLBootstrap.Encode(r)
	},
	"ACLMode": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLMode.Encode(&access.ModeChange{Mode: d.of("off", "log", "enforce", "none"), Loosen: d.flip()})
	},
	"ACLPolicyPut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLPolicyPut.Encode(&access.PolicyPutRequest{
			Policy:       &access.Policy{Name: d.of("p1", "p2", "not valid"), Rules: "r"},
			WriteOptions: d.now(),
		})
	},
	"ACLPolicyDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLPolicyDelete.Encode(&access.PolicyDeleteRequest{Name: d.of("p1", "p2")})
	},
	"ACLRolePut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		r := &access.Role{
			ID:       d.of("r1", "r2"),
			Name:     d.of("one", "two"),
			Policies: []*access.PolicyLink{{Name: d.of("p1", "p2")}},
		}
		if d.upTo(4) == 0 {
			r.Policies = append(r.Policies, nil)
		}
		return ACLRolePut.Encode(&access.RolePutRequest{Role: r})
	},
	"ACLRoleDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLRoleDelete.Encode(&access.RoleDeleteRequest{ID: d.of("r1", "r2")})
	},
	"ACLTokenPut": func(d dice, _ *state.ReadTx) ([]byte, error) {
		now := d.now().Now
		t := &access.Token{
			AccessorID: d.of("a1", "a2", "a3"),
			SecretHash: []byte(d.of("s1", "s2", "s3", "s4")),
			Type:       access.TypeClient,
			Policies:   []string{d.of("p1", "p2")},
		}
		if d.flip() {
			t.Roles = []*access.Link{{ID: d.of("r1", "r2")}}
		}
		if d.upTo(4) == 0 {
			t.Roles = append(t.Roles, nil)
		}
		if d.flip() {
			t.ExpireTime = now + int64(d.upTo(3))
		}
		return ACLTokenPut.Encode(&access.TokenChange{Token: t, Now: now})
	},
	"ACLTokenDelete": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLTokenDelete.Encode(&access.TokenDeleteRequest{AccessorID: d.of("a1", "a2", "a3")})
	},
	"ACLTokensExpire": func(d dice, _ *state.ReadTx) ([]byte, error) {
		return ACLTokensExpire.Encode(&access.TokensExpireRequest{Now: d.now().Now})
	},
}

func init() { maps.Copy(draws, aclDraws) }
