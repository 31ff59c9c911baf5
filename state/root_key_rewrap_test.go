package state_test

import (
	"testing"

	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

func TestRootKeyRewrap_ReplacesTheFormThatTheProposerSaw(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	w.RootKey("two", "one", false)
	w.safe("s", "one", "value")
	rewrap := func(id, was, kek, wrapped string) {
		t.Helper()
		do(w, trust.RootKeyRewrap, &cluster.RootKeyRewrapRequest{
			KeyID: id, Was: was, KEK: kek, Wrapped: []byte(wrapped),
		})
	}

	rewrap("one", "kek", "new", "first")
	rewrap("one", "kek", "new", "late") // a repeat, and another leader
	rewrap("two", "other", "new", "wrong")
	rewrap("gone", "kek", "new", "form")
	w.wantKeys("one inactive", "two active")
	one, two := trust.RootKey(w.Store.Read(), "one"), trust.RootKey(w.Store.Read(), "two")
	if one.KEK != "new" || string(one.Wrapped) != "first" || string(one.Digest) != "one" {
		t.Errorf("got %+v", one)
	}
	if two.KEK != "kek" || string(two.Wrapped) != "wrapped" {
		t.Errorf("got %+v", two)
	}
}

func TestRootKeyRewrap_BoundsItsFields(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	for name, p := range map[string]*cluster.RootKeyRewrapRequest{
		"no key":          {KeyID: "one", Was: "kek", KEK: "new"},
		"a long key":      {KeyID: "one", Was: "kek", KEK: "new", Wrapped: make([]byte, trust.MaxRootWrapped+1)},
		"no wrapping key": {KeyID: "one", Was: "kek", Wrapped: []byte("w")},
	} {
		if err := try(w, trust.RootKeyRewrap, p); structs.KindOf(err) != structs.KindInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
