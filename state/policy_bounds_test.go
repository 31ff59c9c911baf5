package state_test

import (
	"fmt"
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/quota"
)

// TestTables_HaveABoundOnTheirRows fills each table but for one row. That row is stored, the next one is
// rejected by a text with the bound and the rows, and a row that is there can still be changed.
func TestTables_HaveABoundOnTheirRows(t *testing.T) {
	for name, c := range map[string]struct {
		most   int
		insert func(tx *mvcc.WriteTx, i int)
		put    func(tx *mvcc.WriteTx, id string) error
		fixed  bool // a row is never changed
	}{
		"policies": {state.MaxPolicies, func(tx *mvcc.WriteTx, i int) {
			schema.ACLPolicies.Put(tx, &access.Policy{Name: fmt.Sprint(i)})
		}, func(tx *mvcc.WriteTx, id string) error { return state.PolicyPut(tx, policy(id)) }, false},

		"roles": {state.MaxRoles, func(tx *mvcc.WriteTx, i int) {
			schema.ACLRoles.Put(tx, &access.Role{ID: fmt.Sprint(i), Name: fmt.Sprint(i)})
		}, func(tx *mvcc.WriteTx, id string) error { return state.RolePut(tx, role(id, id, "p")) }, false},

		"tokens": {state.MaxTokens, func(tx *mvcc.WriteTx, i int) {
			schema.ACLTokens.Put(tx, clientToken(fmt.Sprint(i)).Token)
		}, func(tx *mvcc.WriteTx, id string) error { return state.TokenPut(tx, clientToken(id, "p")) }, true},

		"auth methods": {state.MaxAuthMethods, func(tx *mvcc.WriteTx, i int) {
			schema.ACLAuthMethods.Put(tx, &access.AuthMethod{Name: fmt.Sprint(i)})
		}, func(tx *mvcc.WriteTx, id string) error {
			return state.AuthMethodPut(tx, &access.AuthMethodChange{Method: authMethod(id)})
		}, false},

		"binding rules": {state.MaxBindingRules, func(tx *mvcc.WriteTx, i int) {
			schema.ACLBindingRules.Put(tx, &access.BindingRule{ID: fmt.Sprint(i), AuthMethod: "m"})
		}, func(tx *mvcc.WriteTx, id string) error {
			r := &access.BindingRule{ID: id, AuthMethod: "m", BindType: "policy", BindName: "p"}
			return state.BindingRulePut(tx, &access.BindingRuleChange{Rule: r})
		}, false},

		"one-time tokens": {state.MaxOneTimeTokens, func(tx *mvcc.WriteTx, i int) {
			schema.ACLOneTimeTokens.Put(tx, &access.OneTimeToken{Hash: fmt.Append(nil, i)})
		}, func(tx *mvcc.WriteTx, id string) error {
			o := &access.OneTimeToken{AccessorID: "t", Hash: []byte(id), Box: []byte("box"), End: 1000}
			return state.OneTimeTokenChange(tx, &access.OneTimeChange{Put: o, Now: 100})
		}, true},

		"completed logins": {state.MaxLoginMarks, func(tx *mvcc.WriteTx, i int) {
			schema.ACLLoginMarks.Put(tx, &access.LoginMark{ID: fmt.Sprint(i), End: 1000})
		}, func(tx *mvcc.WriteTx, id string) error {
			return state.PutLoginMark(tx, &access.LoginMark{ID: id, End: 1000}, 100)
		}, true},

		"admission rules": {admission.MaxRules, func(tx *mvcc.WriteTx, i int) {
			schema.AdmissionRules.Put(tx, &admission.Rule{Name: fmt.Sprint(i)})
		}, func(tx *mvcc.WriteTx, id string) error {
			r := &admission.Rule{Name: id, On: "job", Mode: "deny", Expression: "true", Message: "no"}
			return state.AdmissionRulePut(tx, &admission.RulePutRequest{Rule: r})
		}, false},

		"quotas": {10_000, func(tx *mvcc.WriteTx, i int) {
			schema.Quotas.Put(tx, &quota.Spec{Name: fmt.Sprint(i)})
		}, func(tx *mvcc.WriteTx, id string) error {
			limit := &quota.Limit{Region: structs.DefaultRegion, RegionLimit: &quota.Bounds{CPU: 1}}
			spec := &quota.Spec{Name: id, Limits: []*quota.Limit{limit}}
			return namespace.QuotaPut(tx, &quota.SpecPutRequest{Quota: spec})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newACLStore(t)
			doACL(s, state.PolicyPut, policy("p"))
			doACL(s, state.TokenPut, clientToken("t", "p"))
			doACL(s, state.AuthMethodPut, &access.AuthMethodChange{Method: authMethod("m")})
			rows := 0
			// The table has one of the rows above.
			if name == "policies" || name == "tokens" || name == "auth methods" {
				rows = 1
			}
			s.index++
			err := s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
				for i := rows; i < c.most-1; i++ {
					c.insert(tx, i)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}

			put := func(tx *mvcc.WriteTx, id *string) error { return c.put(tx, *id) }
			doACL(s, put, new("last"))
			rejects(s, put, new("beyond"), structs.KindPrecondition, fmt.Sprintf("there are %d %s", c.most, name))
			if !c.fixed {
				doACL(s, put, new("last"))
			}
		})
	}
}

func authMethod(name string) *access.AuthMethod {
	return &access.AuthMethod{
		Name:          name,
		Type:          access.MethodJWT,
		TokenLocality: "local",
		MaxTokenTTL:   access.Duration(time.Hour),
		Config: &access.AuthConfig{
			JWKSURL:        "https://example.org/keys",
			BoundAudiences: []string{"berth"},
		},
	}
}

// TestPut_ReadsNoOtherRowsOfItsTable stores rows in an empty table and in a nearly full one. The quickest of
// many writes costs about the same: a scan of the full table would take hundreds of times longer.
func TestPut_ReadsNoOtherRowsOfItsTable(t *testing.T) {
	for name, c := range map[string]struct {
		most   int
		insert func(tx *mvcc.WriteTx, i int)
		put    func(tx *mvcc.WriteTx, id string) error
	}{
		"tokens": {state.MaxTokens, func(tx *mvcc.WriteTx, i int) {
			schema.ACLTokens.Put(tx, clientToken(fmt.Sprint(i)).Token)
		}, func(tx *mvcc.WriteTx, id string) error { return state.TokenPut(tx, clientToken(id, "p")) }},

		"one-time tokens": {state.MaxOneTimeTokens, func(tx *mvcc.WriteTx, i int) {
			schema.ACLOneTimeTokens.Put(tx, &access.OneTimeToken{Hash: fmt.Append(nil, i)})
		}, func(tx *mvcc.WriteTx, id string) error {
			o := &access.OneTimeToken{AccessorID: "t", Hash: []byte(id), Box: []byte("box"), End: 1000}
			return state.OneTimeTokenChange(tx, &access.OneTimeChange{Put: o, Now: 100})
		}},

		"completed logins": {state.MaxLoginMarks, func(tx *mvcc.WriteTx, i int) {
			schema.ACLLoginMarks.Put(tx, &access.LoginMark{ID: fmt.Sprint(i), End: 1000})
		}, func(tx *mvcc.WriteTx, id string) error {
			return state.PutLoginMark(tx, &access.LoginMark{ID: id, End: 1000}, 100)
		}},
	} {
		s := newACLStore(t)
		doACL(s, state.PolicyPut, policy("p"))
		doACL(s, state.TokenPut, clientToken("t", "p"))
		const writes = 50
		quickest := func(prefix string) time.Duration {
			least := time.Hour
			put := func(tx *mvcc.WriteTx, id *string) error { return c.put(tx, *id) }
			for i := range writes {
				start := time.Now()
				doACL(s, put, new(fmt.Sprint(prefix, i)))
				least = min(least, time.Since(start))
			}
			return least
		}

		empty := quickest("few")
		fill := func(tx *mvcc.WriteTx, most *int) error {
			for i := range *most {
				c.insert(tx, i)
			}
			return nil
		}
		doACL(s, fill, new(c.most-2*writes-10))
		full := quickest("many")
		if full > 20*empty {
			t.Errorf("%s: a write takes %v in an empty table and %v in a full one", name, empty, full)
		}
	}
}

// BenchmarkTokenPut stores tokens beside few and many others.
func BenchmarkTokenPut(b *testing.B) {
	for _, rows := range []int{100, 10_000, 90_000} {
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			db := mvcc.Open(&schema.All)
			_ = db.Write(1, func(tx *mvcc.WriteTx) error {
				for i := range rows {
					schema.ACLTokens.Put(tx, clientToken(fmt.Sprint(i)).Token)
				}
				return state.PolicyPut(tx, policy("p"))
			})
			for b.Loop() {
				batch := db.Begin()
				err := batch.Apply(2, func(tx *mvcc.WriteTx) error {
					return state.TokenPut(tx, clientToken("new", "p"))
				})
				batch.Abort()
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
