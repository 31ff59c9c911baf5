package state

import (
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// Login stores the token of a login. The error is conflict if its method has changed since the login was
// verified, denied if the same login by OIDC has made a token already, and precondition if the method has as
// many tokens as it may have.
func Login(tx *mvcc.WriteTx, p *access.LoginChange) error {
	m := schema.ACLAuthMethods.Get(tx, p.Method)
	if m == nil || m.ModifyIndex != p.MethodIndex {
		return structs.Conflictf("the auth method %q has changed during the login; log in again",
			structs.Cut(p.Method, structs.MaxQuoted))
	}
	if p.Token == nil || p.Token.ExpireTime == 0 || p.Token.ExpireTime > p.Now+int64(m.MaxTokenTTL) {
		return structs.Invalidf("the token of a login has to end within MaxTokenTTL of its method, %s",
			m.MaxTokenTTL)
	}
	if schema.ACLTokens.Get(tx, p.Token.AccessorID) != nil {
		return structs.Conflictf("another token has the accessor %s", p.Token.AccessorID)
	}

	err := checkLoginTokens(tx, p.Method)
	if err == nil && p.Mark != nil {
		err = putLoginMark(tx, p.Mark, p.Now)
	}
	if err != nil {
		return err
	}
	t := *p.Token
	t.AuthMethod = p.Method
	return putToken(tx, &t, p.Now)
}

// checkLoginTokens returns an error if the logins of an auth method have made as many tokens as they may. So
// whoever can log in by one method leaves place for the tokens of others and of operators.
func checkLoginTokens(tx mvcc.Reader, method string) error {
	row := schema.ACLMethodTokens.Get(tx, method)
	if row == nil || row.Tokens < maxMethodTokens {
		return nil
	}
	return structs.Preconditionf("there are %d tokens of logins by the auth method %q, the most of one method; "+
		"let them end sooner: berth acl auth-method update -max-token-ttl DURATION %s; "+
		"or delete some of them: berth acl token delete ACCESSOR", row.Tokens, method, method)
}

// UsedLogin reports whether the state of a login by OIDC has made a token.
func UsedLogin(tx mvcc.Reader, id string) bool { return schema.ACLLoginMarks.Get(tx, id) != nil }

func putLoginMark(tx *mvcc.WriteTx, m *access.LoginMark, now int64) error {
	switch {
	case m.ID == "" || m.End <= now:
		return structs.Deniedf("this login has ended; log in again")
	case schema.ACLLoginMarks.Get(tx, m.ID) != nil:
		return structs.Deniedf("this login has made its token already; log in again")
	}

	err := checkRowBound(schema.ACLLoginMarks.Len(tx), maxLoginMarks, "completed logins")
	if err == nil {
		schema.ACLLoginMarks.Put(tx, new(*m))
	}
	return err
}

// OneTimeToken returns the one-time token with a hash, nil if there is none. It may have ended.
func OneTimeToken(tx mvcc.Reader, hash []byte) *access.OneTimeToken {
	return schema.ACLOneTimeTokens.Get(tx, string(hash))
}

// OneTimeTokenChange stores a one-time token, or uses one up. The error is denied if there is none to use.
func OneTimeTokenChange(tx *mvcc.WriteTx, p *access.OneTimeChange) error {
	if p.Put != nil {
		return putOneTimeToken(tx, p.Put, p.Now)
	}

	row := schema.ACLOneTimeTokens.Get(tx, string(p.Use))
	if row == nil || row.End <= p.Now {
		return structs.Deniedf("no one-time token has this secret: it was used, has ended or never existed")
	}
	schema.ACLOneTimeTokens.Delete(tx, row)
	return nil
}

func putOneTimeToken(tx *mvcc.WriteTx, o *access.OneTimeToken, now int64) error {
	t := schema.ACLTokens.Get(tx, o.AccessorID)
	switch {
	case len(o.Hash) == 0 || len(o.Box) == 0 || o.End <= now:
		return structs.Invalidf("the one-time token is not complete, or has ended")
	case t == nil || t.Expired(now):
		return structs.Preconditionf("the token of the one-time token has ended or was deleted")
	}

	err := checkRowBound(schema.ACLOneTimeTokens.Len(tx), maxOneTimeTokens, "one-time tokens")
	if err == nil {
		schema.ACLOneTimeTokens.Put(tx, new(*o))
	}
	return err
}
