package state_test

import (
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

const day = int64(24 * time.Hour)

func (s *aclStore) makeToken(accessor string, end int64) {
	s.t.Helper()
	doACL(s, state.TokenPut, &access.TokenChange{Now: 1, Token: &access.Token{
		AccessorID: accessor, SecretHash: []byte(accessor), Type: access.TypeManagement, ExpireTime: end,
	}})
}

func (s *aclStore) deleteToken(accessor string, now int64) {
	s.t.Helper()
	doACL(s, state.TokenDelete, &access.TokenDeleteRequest{
		AccessorID: accessor, Keep: time.Duration(9 * day), WriteOptions: structs.WriteOptions{Now: now},
	})
}

func (s *aclStore) remembers(accessor string) bool {
	return schema.ACLDeletedTokens.Get(s.db.Read(), accessor) != nil
}

// An archive has tokens that were deleted since, at this cluster or before in the archive's one.
func TestKeepAccess_LeavesDeletedTokensDeleted(t *testing.T) {
	now, archive := newACLStore(t), newACLStore(t)
	for _, s := range []*aclStore{now, archive} {
		s.makeToken("stays", 0)
		s.makeToken("deleted since", 0)
		s.makeToken("with an end", 5*day)
	}
	now.deleteToken("deleted since", day)
	now.deleteToken("with an end", day)
	doACL(archive, state.OneTimeTokenChange, &access.OneTimeChange{Now: 1, Put: &access.OneTimeToken{
		Hash: []byte("used since"), Box: []byte("b"), AccessorID: "stays", End: int64(time.Minute),
	}})
	archive.makeToken("deleted there", 0)
	archive.deleteToken("deleted there", day)

	restore := func(tx *mvcc.WriteTx, _ *struct{}) error { state.KeepAccess(tx, now.db.Read()); return nil }
	doACL(archive, restore, nil)
	for accessor, want := range map[string]bool{"stays": true, "deleted since": false, "with an end": false} {
		if got := state.TokenByAccessor(archive.db.Read(), accessor) != nil; got != want {
			t.Errorf("the token %q is there after the restore: %v, want %v", accessor, got, want)
		}
	}
	for _, accessor := range []string{"deleted since", "with an end", "deleted there"} {
		if !archive.remembers(accessor) {
			t.Errorf("after the restore nothing remembers that %q was deleted", accessor)
		}
	}
	if state.OneTimeToken(archive.db.Read(), []byte("used since")) != nil {
		t.Error("a one-time token of the archive works")
	}
}

func TestKeepAccess_LeavesUsedLoginsUsed(t *testing.T) {
	now, archive := newACLStore(t), newACLStore(t)
	mark := func(tx *mvcc.WriteTx, _ *struct{}) error {
		schema.ACLLoginMarks.Put(tx, &access.LoginMark{ID: "used", End: day})
		return nil
	}
	doACL(now, mark, nil)
	keep := func(tx *mvcc.WriteTx, _ *struct{}) error {
		state.KeepAccess(tx, now.db.Read())
		return nil
	}
	doACL(archive, keep, nil)
	if schema.ACLLoginMarks.Len(archive.db.Read()) != 1 {
		t.Error("a login that was used can be used again after a restore")
	}
}

func TestTokensExpire_ForgetsDeletedTokensInTime(t *testing.T) {
	s := newACLStore(t)
	s.makeToken("for long", 0)
	s.makeToken("with an end", 5*day)
	s.deleteToken("for long", day)
	s.deleteToken("with an end", day)
	for _, step := range []struct {
		now           int64
		long, withEnd bool
	}{
		{5*day - 1, true, true},
		{5 * day, true, false},
		{10*day - 1, true, false},
		{10 * day, false, false},
	} {
		doACL(s, state.TokensExpire, &access.TokensExpireRequest{Now: step.now})
		if s.remembers("for long") != step.long || s.remembers("with an end") != step.withEnd {
			t.Errorf("at %d: got %v and %v, want %v and %v", step.now, s.remembers("for long"),
				s.remembers("with an end"), step.long, step.withEnd)
		}
	}
	if first := state.FirstTokenEnd(s.db.Read()); first != 0 {
		t.Errorf("something ends at %d", first)
	}
}
