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

// keyStore is a database with a root key.
type keyStore struct {
	t     *testing.T
	db    *mvcc.DB
	index uint64
}

func newKeyStore(t *testing.T) *keyStore {
	s := &keyStore{t: t, db: mvcc.Open(&schema.All), index: 10}
	doKeys(s, func(tx *mvcc.WriteTx, k *cluster.RootKey) error {
		schema.RootKeys.Put(tx, k)
		return nil
	}, &cluster.RootKey{KeyID: "root"})
	return s
}

func tryKeys[P any](s *keyStore, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.index++
	return s.db.Write(s.index, func(tx *mvcc.WriteTx) error { return apply(tx, p) })
}

func doKeys[P any](s *keyStore, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := tryKeys(s, apply, p)
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

func (s *keyStore) add(ids ...string) {
	s.t.Helper()
	for _, id := range ids {
		doKeys(s, trust.SigningKeyAdd, key(id, access.KeyEdDSA))
	}
}

func (s *keyStore) activate(id string, now int64) {
	s.t.Helper()
	doKeys(s, trust.SigningKeyActivate, &access.KeyActivateRequest{KeyID: id, Now: now})
}

// wantStates compares the states of the keys, as key and state.
func (s *keyStore) wantStates(want ...string) {
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
	s := newKeyStore(t)
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
		err := tryKeys(s, trust.SigningKeyAdd, c.req)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: got %v, want an error of kind %s", name, err, c.kind)
		}
	}
	s.add("b") // a repeat
	s.wantStates("a active", "b published")
}

func TestActivate_RetiresTheFormerKeyOfTheAlgorithm(t *testing.T) {
	s := newKeyStore(t)
	s.add("a", "b")
	doKeys(s, trust.SigningKeyAdd, key("other", access.KeyRS256))
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
	replaced := newKeyStore(t)
	replaced.add("removed")
	doKeys(replaced, trust.SigningKeyRemove, &access.KeyRemoveRequest{KeyID: "removed"})
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
			s := newKeyStore(t)
			s.add(c.archive...)
			doKeys(s, func(tx *mvcc.WriteTx, now *int64) error {
				trust.KeepSigningKeys(tx, replaced.db.Read(), *now)
				return nil
			}, new(int64(9)))
			s.wantStates(c.want...)
		})
	}
}

func TestForget_DeletesTheKeysOfALostRootKey(t *testing.T) {
	s := newKeyStore(t)
	s.add("a")
	doKeys(s, forget, new("another"))
	s.wantStates("a active")
	doKeys(s, forget, new("root"))
	s.wantStates()
}

func forget(tx *mvcc.WriteTx, root *string) error {
	trust.SigningKeysForget(tx, *root)
	return nil
}
