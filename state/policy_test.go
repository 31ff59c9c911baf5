package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// aclStore is a database without the checks of a state.
type aclStore struct {
	t     *testing.T
	db    *mvcc.DB
	index uint64
}

func newACLStore(t *testing.T) *aclStore {
	return &aclStore{
		t:     t,
		db:    mvcc.Open(&schema.All),
		index: 10,
	}
}

// tryACL applies an entry.
func tryACL[P any](s *aclStore, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.index++
	return s.db.Write(s.index, func(tx *mvcc.WriteTx) error { return apply(tx, p) })
}

// doACL applies an entry that must succeed.
func doACL[P any](s *aclStore, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := tryACL(s, apply, p)
	if err != nil {
		s.t.Fatal(err)
	}
}

// rejects applies an entry that must fail with a kind and a text.
func rejects[P any](s *aclStore, apply func(*mvcc.WriteTx, *P) error, p *P, kind structs.Kind, text string) {
	s.t.Helper()
	err := tryACL(s, apply, p)
	if structs.KindOf(err) != kind || !strings.Contains(fmt.Sprint(err), text) {
		s.t.Errorf("got %v, want an error of kind %s with %q", err, kind, text)
	}
}

func policy(name string) *access.PolicyPutRequest {
	return &access.PolicyPutRequest{Policy: &access.Policy{Name: name, Rules: `node { policy = "read" }`}}
}

func role(id, name string, policies ...string) *access.RolePutRequest {
	r := &access.Role{ID: id, Name: name}
	for _, p := range policies {
		r.Policies = append(r.Policies, &access.PolicyLink{Name: p})
	}
	return &access.RolePutRequest{Role: r}
}

// clientToken returns a client token with a policy, which is named like its secret.
func clientToken(accessor string, policies ...string) *access.TokenChange {
	return &access.TokenChange{
		Token: &access.Token{
			AccessorID: accessor,
			SecretHash: access.HashSecret(accessor),
			Type:       access.TypeClient,
			Policies:   policies,
		},
		Now: 100,
	}
}

func TestACLBootstrap_HappensOnceAndAgainAtItsIndex(t *testing.T) {
	s := newACLStore(t)
	first := func(accessor string, reset uint64) *access.BootstrapChange {
		return &access.BootstrapChange{
			Token: &access.Token{
				AccessorID: accessor,
				SecretHash: access.HashSecret(accessor),
				Type:       access.TypeManagement,
			},
			ResetIndex: reset,
			Now:        100,
		}
	}

	rejects(s, state.ACLBootstrap, first("a", 7), structs.KindConflict, "entry 0")
	doACL(s, state.ACLBootstrap, first("a", 0))
	index := state.ACLBootstrapped(s.db.Read())
	if index != s.index {
		t.Errorf("the index of the first token is %d, want %d", index, s.index)
	}

	rejects(s, state.ACLBootstrap, first("b", 0), structs.KindConflict, fmt.Sprintf("entry %d", index))
	rejects(s, state.ACLBootstrap, first("b", index+1), structs.KindConflict, fmt.Sprintf("entry %d", index))
	doACL(s, state.ACLBootstrap, first("b", index))
	rejects(s, state.ACLBootstrap, first("c", index), structs.KindConflict, fmt.Sprintf("entry %d", s.index))

	notManagement := first("d", state.ACLBootstrapped(s.db.Read()))
	notManagement.Token.Type = access.TypeClient
	rejects(s, state.ACLBootstrap, notManagement, structs.KindInvalid, "management")
}

func TestTokenPut_StoresANewTokenAndChangesAKnownOne(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("read"))
	doACL(s, state.PolicyPut, policy("write"))
	doACL(s, state.TokenPut, clientToken("a", "read"))

	got := state.TokenBySecret(s.db.Read(), "a")
	if got == nil || got.AccessorID != "a" || got.CreateTime != 100 {
		t.Fatalf("by its secret: got %+v, want the token a", got)
	}
	if state.TokenBySecret(s.db.Read(), "b") != nil {
		t.Error("another secret finds a token")
	}

	change := clientToken("a", "write")
	change.Token.SecretHash = access.HashSecret("other")
	change.Token.Type = access.TypeManagement
	change.Token.ExpireTime = 1 << 60
	doACL(s, state.TokenPut, change)
	got = state.TokenBySecret(s.db.Read(), "a")
	if got.Policies[0] != "write" || got.Type != access.TypeClient || got.ExpireTime != 0 {
		t.Errorf("got %+v, want another policy, and the former secret, type and end", got)
	}

	doACL(s, state.TokenDelete, &access.TokenDeleteRequest{AccessorID: "a"})
	if state.TokenBySecret(s.db.Read(), "a") != nil {
		t.Error("a deleted token is found by its secret")
	}
	rejects(s, state.TokenDelete, &access.TokenDeleteRequest{AccessorID: "a"}, structs.KindNotFound, `"a"`)
}

func TestTokenPut_RejectsWhatATokenMustNotBe(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("read"))
	doACL(s, state.TokenPut, clientToken("known", "read"))
	for text, change := range map[string]func(*access.Token){
		"no accessor":                 func(t *access.Token) { t.AccessorID = "" },
		"or no secret":                func(t *access.Token) { t.SecretHash = nil },
		"another token has":           func(t *access.Token) { t.SecretHash = access.HashSecret("known") },
		"Type is":                     func(t *access.Token) { t.Type = "root" },
		"expected neither policies":   func(t *access.Token) { t.Type = access.TypeManagement },
		"needs policies or roles":     func(t *access.Token) { t.Policies = nil },
		"at most 100 of each":         func(t *access.Token) { t.Policies = make([]string, 101) },
		"Name has 257 bytes":          func(t *access.Token) { t.Name = strings.Repeat("n", 257) },
		`there is no policy "write"`:  func(t *access.Token) { t.Policies = []string{"write"} },
		"a role of the token does":    func(t *access.Token) { t.Roles = []*access.Link{{ID: "r"}} },
		"has ended before it is":      func(t *access.Token) { t.ExpireTime = 100 },
		"a role of the token does no": func(t *access.Token) { t.Roles = []*access.Link{nil} },
	} {
		c := clientToken("new", "read")
		change(c.Token)
		err := tryACL(s, state.TokenPut, c)
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
}

func TestTokensExpire_DeletesOnlyTokensThatHaveEnded(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("read"))
	for accessor, end := range map[string]int64{"ever": 0, "soon": 200, "later": 300} {
		c := clientToken(accessor, "read")
		c.Token.ExpireTime = end
		doACL(s, state.TokenPut, c)
	}
	if got := state.FirstTokenEnd(s.db.Read()); got != 200 {
		t.Errorf("the first end is %d, want 200", got)
	}

	late := clientToken("soon", "read")
	late.Now = 200
	rejects(s, state.TokenPut, late, structs.KindPrecondition, "has ended")

	doACL(s, state.TokensExpire, &access.TokensExpireRequest{Now: 200})
	var left []string
	for token := range state.Tokens(s.db.Read()) {
		left = append(left, token.AccessorID)
	}
	if fmt.Sprint(left) != "[ever later]" {
		t.Errorf("got the tokens %v, want ever and later", left)
	}
}

func TestRoles_HaveUniqueNamesAndKnownPolicies(t *testing.T) {
	s := newACLStore(t)
	rejects(s, state.RolePut, role("1", "ops", "read"), structs.KindPrecondition, `"read"`)
	doACL(s, state.PolicyPut, policy("read"))
	doACL(s, state.RolePut, role("1", "ops", "read"))
	rejects(s, state.RolePut, role("2", "ops", "read"), structs.KindConflict, "with the ID 1")
	rejects(s, state.RolePut, role("2", "dev"), structs.KindInvalid, "at least one")
	rejects(s, state.RolePut, role("", "dev", "read"), structs.KindInvalid, "no ID")
	rejects(s, state.RolePut, role("2", "a b", "read"), structs.KindInvalid, "valid name")
	rejects(s, state.PolicyPut, policy("a/b"), structs.KindInvalid, "valid name")
	rejects(s, state.RolePut, role("2", "dev", slices.Repeat([]string{"read"}, 101)...), structs.KindInvalid,
		"at most 100")

	null := role("2", "dev", "read")
	null.Role.Policies = append(null.Role.Policies, nil)
	rejects(s, state.RolePut, null, structs.KindInvalid, "found null")
	long := role("2", "dev", "read")
	long.Role.Description = strings.Repeat("d", 257)
	rejects(s, state.RolePut, long, structs.KindInvalid, "Description has 257 bytes")
	longPolicy := policy("long")
	longPolicy.Policy.Description = long.Role.Description
	rejects(s, state.PolicyPut, longPolicy, structs.KindInvalid, "Description has 257 bytes")

	doACL(s, state.RolePut, role("1", "operators", "read"))
	tx := s.db.Read()
	if state.RoleByName(tx, "ops") != nil || state.RoleByName(tx, "operators").ID != "1" {
		t.Error("a renamed role is not found by its new name alone")
	}
	doACL(s, state.RoleDelete, &access.RoleDeleteRequest{ID: "1"})
	rejects(s, state.RoleDelete, &access.RoleDeleteRequest{ID: "1"}, structs.KindNotFound, `"1"`)
}

// A deleted policy or role gives nothing any more.
func TestPoliciesOf_AreThoseOfTheTokenAndItsRoles(t *testing.T) {
	s := newACLStore(t)
	for _, name := range []string{"a", "b", "c"} {
		doACL(s, state.PolicyPut, policy(name))
	}
	doACL(s, state.RolePut, role("1", "ops", "a", "b"))
	change := clientToken("x", "c", "a")
	change.Token.Roles = []*access.Link{{ID: "1"}}
	doACL(s, state.TokenPut, change)

	names := func() string {
		tx := s.db.Read()
		var all []string
		for _, p := range state.PoliciesOf(tx, state.TokenByAccessor(tx, "x")) {
			all = append(all, p.Name)
		}
		return strings.Join(all, " ")
	}
	if got := names(); got != "a b c" {
		t.Errorf("got the policies %q, want a b c", got)
	}
	doACL(s, state.PolicyDelete, &access.PolicyDeleteRequest{Name: "a"})
	rejects(s, state.PolicyDelete, &access.PolicyDeleteRequest{Name: "a"}, structs.KindNotFound, `"a"`)
	doACL(s, state.RoleDelete, &access.RoleDeleteRequest{ID: "1"})
	if got := names(); got != "c" {
		t.Errorf("after deletions: got the policies %q, want c", got)
	}
}

// An archive of another version may have what no entry stores any more.
func TestPoliciesOf_SkipsLinksThatAreNull(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("a"))
	s.index++
	err := s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
		schema.ACLRoles.Put(tx, &access.Role{ID: "1", Name: "r", Policies: []*access.PolicyLink{nil, {Name: "a"}}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	token := &access.Token{AccessorID: "x", Roles: []*access.Link{nil, {ID: "1"}}}
	got := state.PoliciesOf(s.db.Read(), token)
	if len(got) != 1 || got[0].Name != "a" {
		t.Errorf("got the policies %v, want a alone", got)
	}
}
