package trust_test

import (
	"slices"
	"strconv"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// replacedAt has the authorities a, b and c, which replaced each other at some times.
func replacedAt(t *testing.T, b, c int64) *fixture {
	t.Helper()
	w := keyedFixture(t)
	do(w, trust.AuthoritySet, anAuthority("a"))
	second := anAuthority("b", "a")
	second.Now = b
	do(w, trust.AuthoritySet, second)
	third := anAuthority("c", "b")
	third.Now = c
	do(w, trust.AuthoritySet, third)
	return w
}

// trustedAt lists the IDs of the trusted authorities.
func (w *fixture) trustedAt(now int64) (ids []string) {
	for _, a := range trust.TrustedAuthorities(slices.Collect(trust.Authorities(w.Store.Read())), now) {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestAuthoritySet_KeepsTheFormerOnesTrustedForAWhile(t *testing.T) {
	w := replacedAt(t, 10, 20)
	do(w, trust.AuthoritySet, anAuthority("a")) // again, late
	for now, want := range map[int64][]string{
		21:                            {"c", "b", "a"},
		int64(trust.RenewWithin) + 10: {"c", "b"},
		int64(trust.RenewWithin) + 20: {"c"},
	} {
		if got := w.trustedAt(now); !slices.Equal(got, want) {
			t.Errorf("at %d: %q are trusted; expected %q", now, got, want)
		}
	}
	former := schema.Authorities.Get(w.Store.Read(), "b")
	if former.RetireTime != 20 || former.CrossPEM != "of b by a" {
		t.Errorf("the former one is %+v", former)
	}

	next := anAuthority("d", "c")
	next.Now = int64(trust.RenewWithin) + 10
	do(w, trust.AuthoritySet, next)
	if tx := w.Store.Read(); schema.Authorities.Get(tx, "a") != nil || schema.Authorities.Get(tx, "b") == nil {
		t.Error("expected that the next one deletes the rows that are not trusted, and no others")
	}
}

func TestAuthoritySet_RejectsOtherRequests(t *testing.T) {
	w := replacedAt(t, 10, 20)
	crossless := anAuthority("d", "c")
	crossless.CrossPEM = ""
	for name, c := range map[string]struct {
		r    *cluster.AuthorityRequest
		kind structs.Kind
	}{
		"of a former one":             {anAuthority("d", "b"), structs.KindConflict},
		"of none":                     {anAuthority("d"), structs.KindConflict},
		"without a cross certificate": {crossless, structs.KindInvalid},
	} {
		err := try(w, trust.AuthoritySet, c.r)
		if !structs.IsKind(err, c.kind) {
			t.Errorf("%s: %v; expected %s", name, err, c.kind)
		}
	}
	former := "c"
	for i := range trust.MaxAuthorities - 3 {
		id := "x" + strconv.Itoa(i)
		do(w, trust.AuthoritySet, anAuthority(id, former))
		former = id
	}
	err := try(w, trust.AuthoritySet, anAuthority("y", former))
	wantKind(t, err, structs.KindPrecondition)
}

// A clock that was set back must not end the trust in the former authority.
func TestAuthoritySet_CountsFromTheCreationOfTheFormerOne(t *testing.T) {
	w := replacedAt(t, int64(trust.RenewWithin), 5)
	if got := w.trustedAt(int64(trust.RenewWithin) + 10); !slices.Equal(got, []string{"c", "b", "a"}) {
		t.Errorf("%q are trusted", got)
	}
}

func TestAuthorityRemove_RemovesThoseBeforeItToo(t *testing.T) {
	remove := func(id string) *cluster.AuthorityRemoveRequest {
		return &cluster.AuthorityRemoveRequest{ID: id}
	}
	for id, want := range map[string][]string{"b": {"c"}, "a": {"c", "b"}} {
		w := replacedAt(t, 10, 20)
		do(w, trust.AuthorityRemove, remove(id))
		if got := w.trustedAt(21); !slices.Equal(got, want) {
			t.Errorf("without %s %q are trusted; expected %q", id, got, want)
		}
		if schema.Authorities.Get(w.Store.Read(), "a") != nil {
			t.Errorf("without %s, the key of a is there", id)
		}
		wantKind(t, try(w, trust.AuthorityRemove, remove(id)), structs.KindNotFound)
		wantKind(t, try(w, trust.AuthorityRemove, remove("c")), structs.KindPrecondition)
		do(w, trust.AuthoritySet, anAuthority("d", "c"))
	}
}

// An archive must bring back no authority that was removed since. The machines trust the later ones alone.
func TestRecover_KeepsLaterAuthorities(t *testing.T) {
	later := replacedAt(t, 10, 20)
	do(later, trust.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: "b"})
	archive := keyedFixture(t)
	do(archive, trust.AuthoritySet, anAuthority("a"))
	other := keyedFixture(t)
	do(other, trust.AuthoritySet, anAuthority("z"))
	none := keyedFixture(t)
	for name, c := range map[string]struct {
		before  *fixture
		archive *fixture
		want    []string
	}{
		"a later state":                   {later, archive, []string{"c"}},
		"no authority":                    {none, archive, []string{"a"}},
		"an archive without one":          {later, none, []string{"c"}},
		"a later archive":                 {archive, later, []string{"c"}},
		"an archive of another cluster":   {other, archive, []string{"a", "z"}},
		"a later one of another cluster":  {other, replacedAt(t, 10, 20), []string{"c", "b", "a", "z"}},
		"after a replacement, of another": {replacedAt(t, 10, 20), other, []string{"z", "c", "b", "a"}},
	} {
		restored := c.before.restored(c.archive.Save())
		if got := restored.trustedAt(21); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q are trusted; expected %q", name, got, c.want)
		}
		if faults := state.Check(restored.Store.Read()); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

// A machine would show the secret of such a token to a holder of a stolen key.
func TestAuthorityRemove_DeletesTheJoinTokensThatNameIt(t *testing.T) {
	w := replacedAt(t, 10, 20)
	token := func(id, authority string) *cluster.JoinTokenRequest {
		r := aJoinToken(id, 1)
		r.Authority = authority
		return r
	}
	for id, authority := range map[string]string{"of a": "a", "of b": "b", "of c": "c"} {
		do(w, trust.JoinTokenPut, token(id, authority))
	}
	if got := len(trust.TokensOfAuthority(w.Store.Read(), "b")); got != 2 {
		t.Errorf("%d tokens name b or a; expected 2", got)
	}

	do(w, trust.AuthorityRemove, &cluster.AuthorityRemoveRequest{ID: "b"})
	var left []string
	for t := range trust.JoinTokens(w.Store.Read()) {
		left = append(left, t.ID)
	}
	if !slices.Equal(left, []string{"of c"}) {
		t.Errorf("the tokens %q stay; expected that of c alone", left)
	}
	wantKind(t, try(w, trust.MachineCertificateSet, aCertificate("of a", "n1", "k")), structs.KindDenied)
	wantKind(t, try(w, trust.JoinTokenPut, token("late", "a")), structs.KindConflict)
}
