package acls_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state/acls"
	"berth/state/check"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// loginBy returns a login by an auth method that makes a token.
func (s *store) loginBy(name, accessor string) *access.LoginChange {
	t := client(accessor, "p").Token
	t.ExpireTime = 200
	return &access.LoginChange{
		Token:       t,
		Method:      name,
		MethodIndex: acls.AuthMethod(s.db.Read(), name).ModifyIndex,
		Now:         100,
	}
}

// TestLogin_LeavesPlaceForTheTokensOfOthers fills the part of the table that one auth method may have. Its
// logins are rejected until one of its tokens is gone. Other methods and operators can make tokens.
func TestLogin_LeavesPlaceForTheTokensOfOthers(t *testing.T) {
	s := newStore(t)
	do(s, acls.PolicyPut, policy("p"))
	for _, name := range []string{"ci", "corp"} {
		do(s, acls.AuthMethodPut, &access.AuthMethodChange{Method: method(name)})
	}
	s.index++
	err := s.db.Write(s.index, func(tx *mvcc.WriteTx) error {
		for i := range acls.MaxMethodTokens - 1 {
			row := client(fmt.Sprint(i)).Token
			row.AuthMethod = "ci"
			schema.ACLTokens.Put(tx, row)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	do(s, acls.Login, s.loginBy("ci", "last"))
	beyond := s.loginBy("ci", "beyond")
	beyond.Mark = &access.LoginMark{ID: "once", End: 1000}
	rejects(s, acls.Login, beyond, structs.KindPrecondition,
		fmt.Sprintf("%d tokens of logins by the auth method \"ci\"", acls.MaxMethodTokens))
	err = try(s, acls.Login, beyond)
	for _, remedy := range []string{"-max-token-ttl DURATION ci", "berth acl token delete"} {
		if !strings.Contains(fmt.Sprint(err), remedy) {
			t.Errorf("the error %v does not name %q", err, remedy)
		}
	}

	do(s, acls.Login, s.loginBy("corp", "other"))
	do(s, acls.TokenPut, client("operator", "p"))
	do(s, acls.TokenPut, client("last", "p")) // a change of a token is no other one
	rejects(s, acls.Login, beyond, structs.KindPrecondition, "auth method \"ci\"")
	do(s, acls.TokenDelete, &access.TokenDeleteRequest{AccessorID: "last"})
	do(s, acls.Login, beyond)
}

// A token counts for its auth method until its end or its deletion. Only a login makes it one of a method.
func TestTokens_AreCountedByTheirMethods(t *testing.T) {
	s := newStore(t)
	do(s, acls.PolicyPut, policy("p"))
	do(s, acls.AuthMethodPut, &access.AuthMethodChange{Method: method("ci")})
	count := func(want int) {
		t.Helper()
		c := check.New(s.db.Read())
		acls.CheckCounts(c)
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

	forged := client("forged", "p")
	forged.Token.AuthMethod = "ci"
	do(s, acls.TokenPut, forged)
	count(0)
	do(s, acls.Login, s.loginBy("ci", "a"))
	do(s, acls.Login, s.loginBy("ci", "b"))
	count(2)
	do(s, acls.TokenPut, client("a", "p"))
	if got := acls.Token(s.db.Read(), "a").AuthMethod; got != "ci" {
		t.Errorf("a changed token is of the method %q, want ci", got)
	}
	count(2)
	do(s, acls.TokenDelete, &access.TokenDeleteRequest{AccessorID: "a"})
	count(1)
	do(s, acls.TokensExpire, &access.TokensExpireRequest{Now: 200})
	count(0)
}
