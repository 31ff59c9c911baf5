package state_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// loginBy returns a login by an auth method that makes a token.
func (s *aclStore) loginBy(name, accessor string) *access.LoginChange {
	t := clientToken(accessor, "p").Token
	t.ExpireTime = 200
	return &access.LoginChange{
		Token:       t,
		Method:      name,
		MethodIndex: state.AuthMethod(s.db.Read(), name).ModifyIndex,
		Now:         100,
	}
}

// TestLogin_LeavesPlaceForTheTokensOfOthers fills the part of the table that one auth method may have. Its
// logins are rejected until one of its tokens is gone. Other methods and operators can make tokens.
func TestLogin_LeavesPlaceForTheTokensOfOthers(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("p"))
	for _, name := range []string{"ci", "corp"} {
		doACL(s, state.AuthMethodPut, &access.AuthMethodChange{Method: authMethod(name)})
	}
	s.index++
	err := s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
		for i := range state.MaxMethodTokens - 1 {
			row := clientToken(fmt.Sprint(i)).Token
			row.AuthMethod = "ci"
			schema.ACLTokens.Put(tx, row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	doACL(s, state.Login, s.loginBy("ci", "last"))
	beyond := s.loginBy("ci", "beyond")
	beyond.Mark = &access.LoginMark{ID: "once", End: 1000}
	rejects(s, state.Login, beyond, structs.KindPrecondition,
		fmt.Sprintf("%d tokens of logins by the auth method \"ci\"", state.MaxMethodTokens))
	err = tryACL(s, state.Login, beyond)
	for _, remedy := range []string{"-max-token-ttl DURATION ci", "berth acl token delete"} {
		if !strings.Contains(fmt.Sprint(err), remedy) {
			t.Errorf("the error %v does not name %q", err, remedy)
		}
	}

	doACL(s, state.Login, s.loginBy("corp", "other"))
	doACL(s, state.TokenPut, clientToken("operator", "p"))
	doACL(s, state.TokenPut, clientToken("last", "p")) // a change of a token is no other one
	rejects(s, state.Login, beyond, structs.KindPrecondition, "auth method \"ci\"")
	doACL(s, state.TokenDelete, &access.TokenDeleteRequest{AccessorID: "last"})
	doACL(s, state.Login, beyond)
}

// A token counts for its auth method until its end or its deletion. Only a login makes it one of a method.
func TestTokens_AreCountedByTheirMethods(t *testing.T) {
	s := newACLStore(t)
	doACL(s, state.PolicyPut, policy("p"))
	doACL(s, state.AuthMethodPut, &access.AuthMethodChange{Method: authMethod("ci")})
	count := func(want int) {
		t.Helper()
		c := schema.NewReport(s.db.Read())
		state.CheckMethodTokens(c)
		if faults := c.Faults(); faults != nil {
			t.Error(faults)
		}
		got := 0
		if row := schema.ACLMethodTokens.Get(c, "ci"); row != nil {
			got = row.Tokens
		}
		if got != want {
			t.Errorf("got %d tokens of the method, want %d", got, want)
		}
	}

	forged := clientToken("forged", "p")
	forged.Token.AuthMethod = "ci"
	doACL(s, state.TokenPut, forged)
	count(0)
	doACL(s, state.Login, s.loginBy("ci", "a"))
	doACL(s, state.Login, s.loginBy("ci", "b"))
	count(2)
	doACL(s, state.TokenPut, clientToken("a", "p"))
	if got := state.TokenByAccessor(s.db.Read(), "a").AuthMethod; got != "ci" {
		t.Errorf("a changed token is of the method %q, want ci", got)
	}
	count(2)
	doACL(s, state.TokenDelete, &access.TokenDeleteRequest{AccessorID: "a"})
	count(1)
	doACL(s, state.TokensExpire, &access.TokensExpireRequest{Now: 200})
	count(0)
}
