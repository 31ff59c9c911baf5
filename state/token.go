package state

import (
	"iter"
	"slices"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

const (
	maxTokenLinks = 100 // policies, and roles, of a token; policies of a role
	maxTokenName  = 256 // bytes
	// endedTokensAtOnce bounds the ended tokens that one entry deletes.
	endedTokensAtOnce = 1000
	// maxDeletedTokens bounds the rows of deleted tokens. Beyond it, the one that would end next is forgotten.
	maxDeletedTokens = maxTokens
)

// TokenByAccessor returns a token, nil if there is none. It may have ended: see
// access.TokenByAccessor.Expired.
func TokenByAccessor(tx mvcc.Reader, accessor string) *access.Token {
	return schema.ACLTokens.Get(tx, accessor)
}

// TokenBySecret returns the token with a secret, nil if there is none. It may have ended.
func TokenBySecret(tx mvcc.Reader, secret string) *access.Token {
	return schema.ACLTokensBySecret.First(tx, string(access.HashSecret(secret)))
}

// Tokens yields the tokens by accessor, also ended ones.
func Tokens(tx mvcc.Reader) iter.Seq[*access.Token] { return schema.ACLTokens.Scan(tx) }

// FirstTokenEnd returns the time at which the next token, one-time token, mark of a login or row of a deleted
// token ends, or ended, in UnixNano; 0 if none has an end.
func FirstTokenEnd(tx mvcc.Reader) (first int64) {
	earlier := func(end int64) {
		if first == 0 || end < first {
			first = end
		}
	}

	if t := schema.ACLTokensByEnd.First(tx); t != nil {
		earlier(t.ExpireTime)
	}
	if o := schema.ACLOneTimeTokensByEnd.First(tx); o != nil {
		earlier(o.End)
	}
	if m := schema.ACLLoginMarksByEnd.First(tx); m != nil {
		earlier(m.End)
	}
	if d := schema.ACLDeletedTokensByEnd.First(tx); d != nil {
		earlier(d.End)
	}
	return first
}

// TokenEndRows are the topics of rows with an end, or which had one before the change.
var TokenEndRows = []mvcc.Topic{
	schema.ACLTokensByEnd.Topic(0),
	schema.ACLOneTimeTokensByEnd.Topic(0),
	schema.ACLLoginMarksByEnd.Topic(0),
	schema.ACLDeletedTokensByEnd.Topic(0),
}

// ACLBootstrapped returns the index of the entry that made the first token, 0 if there was none.
func ACLBootstrapped(tx mvcc.Reader) uint64 {
	mark := schema.ACLBootstraps.First(tx)
	if mark == nil {
		return 0
	}
	return mark.ModifyIndex
}

// ACLBootstrap stores the first management token, or another one if the change has the index of the last
// time. The error is a conflict otherwise.
func ACLBootstrap(tx *mvcc.WriteTx, p *access.BootstrapChange) error {
	if p.ResetIndex != ACLBootstrapped(tx) {
		return structs.Conflictf("the first management token was made by entry %d", ACLBootstrapped(tx))
	}
	if p.Token == nil || p.Token.Type != access.TypeManagement {
		return structs.Invalidf("the first token has to be a management token")
	}

	err := putToken(tx, p.Token, p.Now)
	if err != nil {
		return err
	}
	schema.ACLBootstraps.Put(tx, &access.BootstrapMark{})
	return nil
}

// TokenPut stores a new token, or changes the name, the policies and the roles of a known one.
func TokenPut(tx *mvcc.WriteTx, p *access.TokenChange) error {
	if p.Token == nil {
		return structs.Invalidf("there is no token")
	}

	known := schema.ACLTokens.Get(tx, p.Token.AccessorID)
	if known == nil {
		t := *p.Token
		t.AuthMethod = "" // a login alone gives it
		return putToken(tx, &t, p.Now)
	}
	if known.Expired(p.Now) {
		return structs.Preconditionf("the token %s has ended; make another one", known.AccessorID)
	}

	next := *known
	next.Name = p.Token.Name
	next.Policies = p.Token.Policies
	next.Roles = p.Token.Roles
	err := checkToken(tx, &next)
	if err != nil {
		return err
	}
	schema.ACLTokens.Put(tx, &next)
	return nil
}

// putToken stores a new token.
func putToken(tx *mvcc.WriteTx, t *access.Token, now int64) error {
	switch {
	case t.AccessorID == "" || len(t.SecretHash) == 0:
		return structs.Invalidf("the token has no accessor or no secret")
	case schema.ACLTokensBySecret.First(tx, string(t.SecretHash)) != nil:
		return structs.Conflictf("another token has this secret")
	case t.Expired(now):
		return structs.Invalidf("the token has ended before it is stored; expected a later end")
	}

	err := checkToken(tx, t)
	if err == nil {
		err = checkRowBound(schema.ACLTokens.Len(tx), maxTokens, "tokens")
	}
	if err != nil {
		return err
	}

	stored := *t
	stored.CreateTime = now
	schema.ACLTokens.Put(tx, &stored)
	return nil
}

// checkToken returns an error unless a token of its type may have its policies and roles, which have to
// exist.
func checkToken(tx mvcc.Reader, t *access.Token) error {
	given := len(t.Policies) + len(t.Roles)
	switch {
	case t.Type != access.TypeClient && t.Type != access.TypeManagement:
		return structs.Invalidf("Type is %q; expected %s or %s", structs.Cut(t.Type, structs.MaxQuoted),
			access.TypeClient, access.TypeManagement)
	case t.Type == access.TypeManagement && given > 0:
		return structs.Invalidf("a management token may do everything; expected neither policies nor roles")
	case t.Type == access.TypeClient && given == 0:
		return structs.Invalidf("a client token needs policies or roles")
	case len(t.Policies) > maxTokenLinks || len(t.Roles) > maxTokenLinks:
		return structs.Invalidf("the token has %d policies and %d roles; expected at most %d of each",
			len(t.Policies), len(t.Roles), maxTokenLinks)
	case len(t.Name) > maxTokenName:
		return structs.Invalidf("Name has %d bytes; expected at most %d", len(t.Name), maxTokenName)
	}

	for _, name := range t.Policies {
		err := policyExists(tx, name)
		if err != nil {
			return err
		}
	}
	for _, link := range t.Roles {
		if link == nil || schema.ACLRoles.Get(tx, link.ID) == nil {
			return structs.Preconditionf("a role of the token does not exist; create it: berth acl role create")
		}
	}
	return nil
}

// TokenDelete deletes a token. The error is not-found.
func TokenDelete(tx *mvcc.WriteTx, p *access.TokenDeleteRequest) error {
	row := schema.ACLTokens.Get(tx, p.AccessorID)
	if row == nil {
		return structs.NotFoundf("there is no token with the accessor %q",
			structs.Cut(p.AccessorID, structs.MaxQuoted))
	}
	schema.ACLTokens.Delete(tx, row)

	end := p.Now + int64(p.Keep)
	if row.ExpireTime != 0 {
		end = min(end, row.ExpireTime) // from then on no archive has a use of the token
	}
	if end > p.Now {
		rememberDeletedToken(tx, &access.DeletedToken{AccessorID: row.AccessorID, Time: p.Now, End: end})
	}
	return nil
}

func rememberDeletedToken(tx *mvcc.WriteTx, d *access.DeletedToken) {
	schema.ACLDeletedTokens.Put(tx, d)
	if schema.ACLDeletedTokens.Len(tx) > maxDeletedTokens {
		schema.ACLDeletedTokens.Delete(tx, schema.ACLDeletedTokensByEnd.First(tx))
	}
}

// keepAccess takes over from the replaced state what would be lost with a restored one: the tokens that were
// deleted since stay deleted, logins that were used are used, and no one-time token of the archive works,
// because it may have been used, too.
func keepAccess(tx *mvcc.WriteTx, before mvcc.Reader) {
	for d := range schema.ACLDeletedTokens.Scan(before) {
		known := schema.ACLDeletedTokens.Get(tx, d.AccessorID)
		if known == nil || known.End < d.End {
			kept := *d
			rememberDeletedToken(tx, &kept)
		}
	}
	for _, d := range slices.Collect(schema.ACLDeletedTokens.Scan(tx)) {
		row := schema.ACLTokens.Get(tx, d.AccessorID)
		if row != nil {
			schema.ACLTokens.Delete(tx, row)
		}
	}

	for _, o := range slices.Collect(schema.ACLOneTimeTokens.Scan(tx)) {
		schema.ACLOneTimeTokens.Delete(tx, o)
	}
	for m := range schema.ACLLoginMarks.Scan(before) {
		kept := *m
		schema.ACLLoginMarks.Put(tx, &kept)
	}
}

// TokensExpire deletes tokens, one-time tokens, marks of logins and rows of deleted tokens that have ended,
// up to a bound of each. The next entry deletes the rest.
func TokensExpire(tx *mvcc.WriteTx, p *access.TokensExpireRequest) error {
	expireRows(tx, schema.ACLTokens, schema.ACLTokensByEnd.Scan(tx),
		func(t *access.Token) bool { return t.Expired(p.Now) })
	expireRows(tx, schema.ACLOneTimeTokens, schema.ACLOneTimeTokensByEnd.Scan(tx),
		func(o *access.OneTimeToken) bool { return o.End <= p.Now })
	expireRows(tx, schema.ACLLoginMarks, schema.ACLLoginMarksByEnd.Scan(tx),
		func(m *access.LoginMark) bool { return m.End <= p.Now })
	expireRows(tx, schema.ACLDeletedTokens, schema.ACLDeletedTokensByEnd.Scan(tx),
		func(d *access.DeletedToken) bool { return d.End <= p.Now })
	return nil
}

// expireRows deletes the first rows that have ended of those in the order of their ends.
func expireRows[R mvcc.Record](tx *mvcc.WriteTx, t *mvcc.Table[R], byEnd iter.Seq[R], over func(R) bool) {
	var ended []R
	for r := range byEnd {
		if !over(r) || len(ended) == endedTokensAtOnce {
			break
		}
		ended = append(ended, r)
	}

	for _, r := range ended {
		t.Delete(tx, r)
	}
}

// PoliciesOf returns the policies of a token and of its roles, each once, by name. It skips policies
// and roles that were deleted, and links that are null in a restored archive.
func PoliciesOf(tx mvcc.Reader, t *access.Token) []*access.Policy {
	names := slices.Clone(t.Policies)
	for _, link := range t.Roles {
		if link == nil {
			continue
		}

		role := schema.ACLRoles.Get(tx, link.ID)
		if role == nil {
			continue
		}
		for _, p := range role.Policies {
			if p != nil {
				names = append(names, p.Name)
			}
		}
	}

	slices.Sort(names)
	var all []*access.Policy
	for _, name := range slices.Compact(names) {
		p := schema.ACLPolicies.Get(tx, name)
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// TokenWithRoleNames returns a token with the names of its roles, which may have changed, and without roles
// that were deleted.
func TokenWithRoleNames(tx mvcc.Reader, t *access.Token) *access.Token {
	if len(t.Roles) == 0 {
		return t
	}

	shown := *t
	shown.Roles = nil
	for _, link := range t.Roles {
		if link == nil {
			continue
		}
		role := schema.ACLRoles.Get(tx, link.ID)
		if role != nil {
			shown.Roles = append(shown.Roles, &access.Link{ID: role.ID, Name: role.Name})
		}
	}
	return &shown
}
