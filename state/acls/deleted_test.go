package acls_test

import (
	"testing"
	"time"

	"berth/internal/mvcc"
	"berth/state/acls"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

const day = int64(24 * time.Hour)

func (s *store) makeToken(accessor string, end int64) {
	s.t.Helper()
	do(s, acls.TokenPut, &access.TokenChange{Now: 1, Token: &access.Token{
		AccessorID: accessor, SecretHash: []byte(accessor), Type: access.TypeManagement, ExpireTime: end,
	}})
}

func (s *store) deleteToken(accessor string, now int64) {
	s.t.Helper()
	do(s, acls.TokenDelete, &access.TokenDeleteRequest{
		AccessorID: accessor, Keep: time.Duration(9 * day), WriteOptions: structs.WriteOptions{Now: now},
	})
}

func (s *store) remembers(accessor string) bool {
	return schema.ACLDeletedTokens.Get(s.db.Read(), accessor) != nil
}

// An archive has tokens that were deleted since, at this cluster or before in the archive's one.
func TestKeep_LeavesDeletedTokensDeleted(t *testing.T) {
	now, archive := newStore(t), newStore(t)
	for _, s := range []*store{now, archive} {
		s.makeToken("stays", 0)
		s.makeToken("deleted since", 0)
		s.makeToken("with an end", 5*day)
	}
	now.deleteToken("deleted since", day)
	now.deleteToken("with an end", day)
	do(archive, acls.OneTime, &access.OneTimeChange{Now: 1, Put: &access.OneTimeToken{
		Hash: []byte("used since"), Box: []byte("b"), AccessorID: "stays", End: int64(time.Minute),
	}})
	archive.makeToken("deleted there", 0)
	archive.deleteToken("deleted there", day)

	restore := func(tx *mvcc.WriteTx, _ *struct{}) error { acls.Keep(tx, now.db.Read()); return nil }
	do(archive, restore, nil)
	for accessor, want := range map[string]bool{"stays": true, "deleted since": false, "with an end": false} {
		if got := acls.Token(archive.db.Read(), accessor) != nil; got != want {
			t.Errorf("the token %q is there after the restore: %v, want %v", accessor, got, want)
		}
	}
	for _, accessor := range []string{"deleted since", "with an end", "deleted there"} {
		if !archive.remembers(accessor) {
			t.Errorf("after the restore nothing remembers that %q was deleted", accessor)
		}
	}
	if acls.OneTimeToken(archive.db.Read(), []byte("used since")) != nil {
		t.Error("a one-time token of the archive works")
	}
}

func TestKeep_LeavesUsedLoginsUsed(t *testing.T) {
	now, archive := newStore(t), newStore(t)
	mark := func(tx *mvcc.WriteTx, _ *struct{}) error {
		schema.ACLLoginMarks.Put(tx, &access.LoginMark{ID: "used", End: day})
		return nil
	}
	do(now, mark, nil)
	do(archive, func(tx *mvcc.WriteTx, _ *struct{}) error { acls.Keep(tx, now.db.Read()); return nil }, nil)
	if schema.ACLLoginMarks.Len(archive.db.Read()) != 1 {
		t.Error("a login that was used can be used again after a restore")
	}
}

func TestTokensExpire_ForgetsDeletedTokensInTime(t *testing.T) {
	s := newStore(t)
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
		do(s, acls.TokensExpire, &access.TokensExpireRequest{Now: step.now})
		if s.remembers("for long") != step.long || s.remembers("with an end") != step.withEnd {
			t.Errorf("at %d: got %v and %v, want %v and %v", step.now, s.remembers("for long"),
				s.remembers("with an end"), step.long, step.withEnd)
		}
	}
	if first := acls.FirstEnd(s.db.Read()); first != 0 {
		t.Errorf("something ends at %d", first)
	}
}
