package trust_test

import (
	"slices"
	"testing"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// store is a database with a root key.
type store struct {
	t     *testing.T
	db    *mvcc.DB
	index uint64
}

func newStore(t *testing.T) *store {
	s := &store{t: t, db: mvcc.Open(&schema.All), index: 10}
	do(s, func(tx *mvcc.WriteTx, k *cluster.RootKey) error {
		schema.RootKeys.Put(tx, k)
		return nil
	}, &cluster.RootKey{KeyID: "root"})
	return s
}

func try[P any](s *store, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.index++
	return s.db.Write(s.index, func(tx *mvcc.WriteTx) error { return apply(tx, p) })
}

func do[P any](s *store, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := try(s, apply, p)
	if err != nil {
		s.t.Fatal(err)
	}
	report := schema.NewReport(s.db.Read())
	trust.CheckSigningKeys(report)
	for _, fault := range report.Faults() {
		s.t.Error(fault)
	}
}

func key(id, algorithm string) *access.KeyAddRequest {
	return &access.KeyAddRequest{
		Key: &access.SigningKey{
			KeyID:     id,
			Algorithm: algorithm,
			PublicKey: []byte("public"),
			Private:   &structs.Sealed{KeyID: "root"},
		},
		Now: 7,
	}
}

func (s *store) add(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		do(s, trust.SigningKeyAdd, key(id, access.KeyEdDSA))
	}
}

func (s *store) activate(id string, now int64) {
	s.t.Helper()
	do(s, trust.SigningKeyActivate, &access.KeyActivateRequest{KeyID: id, Now: now})
}

// wantStates compares the states of the keys, as key and state.
func (s *store) wantStates(want ...string) {
	s.t.Helper()
	var got []string
	for k := range trust.SigningKeys(s.db.Read()) {
		got = append(got, k.KeyID+" "+k.State)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("got %q, want %q", got, want)
	}
}

func TestAdd_RejectsWhatNoKeyIs(t *testing.T) {
	s := newStore(t)
	s.add("a", "b")
	edit := func(change func(*access.SigningKey)) *access.KeyAddRequest {
		r := key("x", access.KeyRS256)
		change(r.Key)
		return r
	}
	for name, c := range map[string]struct {
		req  *access.KeyAddRequest
		kind structs.Kind
	}{
		"no key":       {&access.KeyAddRequest{}, structs.KindInvalid},
		"no ID":        {edit(func(k *access.SigningKey) { k.KeyID = "" }), structs.KindInvalid},
		"no public":    {edit(func(k *access.SigningKey) { k.PublicKey = nil }), structs.KindInvalid},
		"no private":   {edit(func(k *access.SigningKey) { k.Private = nil }), structs.KindInvalid},
		"HS256":        {key("x", "HS256"), structs.KindInvalid},
		"a lost root":  {edit(func(k *access.SigningKey) { k.Private.KeyID = "lost" }), structs.KindUnavailable},
		"a second one": {key("x", access.KeyEdDSA), structs.KindConflict},
	} {
		err := try(s, trust.SigningKeyAdd, c.req)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: got %v, want an error of kind %s", name, err, c.kind)
		}
	}
	s.add("b") // a repeat
	s.wantStates("a active", "b published")
}

func TestActivate_RetiresTheFormerKeyOfTheAlgorithm(t *testing.T) {
	s := newStore(t)
	s.add("a", "b")
	do(s, trust.SigningKeyAdd, key("other", access.KeyRS256))
	s.activate("b", 9)
	s.wantStates("a retired", "b active", "other active")
	s.activate("a", 10)
	s.wantStates("a retired", "b active", "other active")
	if got := trust.SigningKey(s.db.Read(), "a").RetireTime; got != 9 {
		t.Errorf("the key is retired at %d", got)
	}
}

// An archive of the same cluster brings no removed key back. That of another cluster goes on with its keys,
// and what the former state has signed stays valid.
func TestKeep_KeepsTheKeysOfIdentitiesInUse(t *testing.T) {
	replaced := newStore(t)
	replaced.add("removed")
	do(replaced, trust.SigningKeyRemove, &access.KeyRemoveRequest{KeyID: "removed"})
	replaced.add("same", "next")
	for name, c := range map[string]struct {
		archive []string
		want    []string
	}{
		"an earlier archive": {
			[]string{"removed", "same"}, []string{"next published", "same active"}},
		"an archive without keys": {
			nil, []string{"next published", "same active"}},
		"that of another cluster": {
			[]string{"theirs"}, []string{"next retired", "same retired", "theirs active"}},
		"with one that is published": {
			[]string{"p", "q"}, []string{"next retired", "p active", "q published", "same retired"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			s.add(c.archive...)
			do(s, func(tx *mvcc.WriteTx, now *int64) error {
				trust.KeepSigningKeys(tx, replaced.db.Read(), *now)
				return nil
			}, new(int64(9)))
			s.wantStates(c.want...)
		})
	}
}

func TestForget_DeletesTheKeysOfALostRootKey(t *testing.T) {
	s := newStore(t)
	s.add("a")
	do(s, forget, new("another"))
	s.wantStates("a active")
	do(s, forget, new("root"))
	s.wantStates()
}

func forget(tx *mvcc.WriteTx, root *string) error {
	trust.SigningKeysForget(tx, *root)
	return nil
}
