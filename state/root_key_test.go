package state_test

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// keyStates returns the states of the root keys, by their IDs.
func keyStates(tx state.Reader) map[string]string {
	states := map[string]string{}
	for k := range trust.RootKeys(tx) {
		states[k.KeyID] = k.State
	}
	return states
}

func (w *fixture) wantKeys(want ...string) {
	w.T.Helper()
	var got []string
	for k := range trust.RootKeys(w.Store.Read()) {
		got = append(got, k.KeyID+" "+k.State)
	}
	if !slices.Equal(got, want) {
		w.T.Errorf("the keys are %q, want %q", got, want)
	}
	if faults := state.Check(w.Store.Read()); faults != nil {
		w.T.Error(faults)
	}
}

// safe is a row with two sealed values. No table of the product is needed for the rules of sealed values.
type safe struct {
	ID    string
	Left  *structs.Sealed
	Right *structs.Sealed
	structs.Indexes
}

// safes is the table of the tests in the list of sealed tables. No snapshot file has it.
var safes = func() *mvcc.Table[*safe] {
	table := mvcc.NewTable("safes", func(s *safe) state.Key { return mvcc.KeyOf(s.ID) }).Computed()
	schema.All.Tables = append(schema.All.Tables, table)
	trust.SealedTables = append(trust.SealedTables, trust.SealedIn(table, copySafe, sealedOfSafe, nil))
	return table
}()

func copySafe(s *safe) *safe { return new(*s) }

func sealedOfSafe(s *safe) []trust.SealedField {
	return []trust.SealedField{
		{Place: "left of " + s.ID, Value: s.Left, Set: func(v *structs.Sealed) { s.Left = v }},
		{Place: "right of " + s.ID, Value: s.Right, Set: func(v *structs.Sealed) { s.Right = v }},
	}
}

// safe stores a row with a value that a key encrypts.
func (w *fixture) safe(id, key, data string) {
	w.T.Helper()
	do(w, func(tx *state.WriteTx, s *safe) error {
		safes.Put(tx, s)
		return nil
	}, &safe{ID: id, Right: &structs.Sealed{KeyID: key, Data: []byte(data)}})
}

func TestRootKey_OneIsActive(t *testing.T) {
	w := newFixture(t)
	if trust.ActiveRootKey(w.Store.Read()) != nil {
		t.Error("a key is active in an empty store")
	}
	w.RootKey("one", "", false)
	w.wantKeys("one active")
	w.RootKey("two", "one", false)
	w.wantKeys("one inactive", "two active")
	w.RootKey("three", "two", true)
	w.wantKeys("one rekeying", "three active", "two rekeying")
	got := trust.ActiveRootKey(w.Store.Read())
	if got.KeyID != "three" || got.CreateIndex == 0 || got.KEK != "kek" {
		t.Errorf("got %+v", got)
	}
}

func TestRootKeyAdd_ReplacesTheKeyThatTheProposerSaw(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	wantKind(t, try(w, trust.RootKeyAdd, aRootKey("two", "", false)), structs.KindConflict)
	w.RootKey("one", "", false) // a repeat
	w.RootKey("two", "one", false)
	w.RootKey("one", "", false) // a late repeat
	w.wantKeys("one inactive", "two active")

	other := aRootKey("one", "two", false)
	other.Digest = []byte("of another key")
	wantKind(t, try(w, trust.RootKeyAdd, other), structs.KindConflict)
}

func TestRootKeyAdd_BoundsItsFields(t *testing.T) {
	w := newFixture(t)
	for name, change := range map[string]func(*cluster.RootKeyAddRequest){
		"no ID": func(p *cluster.RootKeyAddRequest) { p.KeyID = "" },
		"a long ID": func(p *cluster.RootKeyAddRequest) {
			p.KeyID = strings.Repeat("x", trust.MaxRootKeyID+1)
		},
		"no key":          func(p *cluster.RootKeyAddRequest) { p.Wrapped = nil },
		"a long key":      func(p *cluster.RootKeyAddRequest) { p.Wrapped = make([]byte, trust.MaxRootWrapped+1) },
		"no wrapping key": func(p *cluster.RootKeyAddRequest) { p.KEK = "" },
	} {
		p := aRootKey("one", "", false)
		change(p)
		if err := try(w, trust.RootKeyAdd, p); structs.KindOf(err) != structs.KindInvalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	was := ""
	for i := range trust.MaxRootKeys {
		id := strings.Repeat("k", i+1)
		w.RootKey(id, was, false)
		was = id
	}
	wantKind(t, try(w, trust.RootKeyAdd, aRootKey("more", was, false)), structs.KindPrecondition)
}

func TestRootKeyRemove_RejectsAKeyInUse(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	remove := &cluster.RootKeyRemoveRequest{KeyID: "one"}
	wantKind(t, try(w, trust.RootKeyRemove, remove), structs.KindPrecondition) // it is active

	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		w.safe(id, "one", "x")
	}
	w.RootKey("two", "one", false)
	err := try(w, trust.RootKeyRemove, remove)
	wantKind(t, err, structs.KindPrecondition)
	for _, text := range []string{"7 places", "right of a, ", "and 2 more", "rotate -full"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}

	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		w.safe(id, "two", "x")
	}
	do(w, trust.RootKeyRemove, remove)
	w.wantKeys("two active")
	do(w, trust.RootKeyRemove, remove) // a repeat
}

func TestRootKeyRekeyed_WaitsForTheLastValue(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	w.safe("a", "one", "x")
	w.RootKey("two", "one", true)
	rekeyed := &cluster.RootKeyRekeyedRequest{KeyID: "one"}
	wantKind(t, try(w, trust.RootKeyRekeyed, rekeyed), structs.KindPrecondition)
	w.wantKeys("one rekeying", "two active")
	w.safe("a", "two", "x")
	do(w, trust.RootKeyRekeyed, rekeyed)
	do(w, trust.RootKeyRekeyed, &cluster.RootKeyRekeyedRequest{KeyID: "two"}) // it is not rekeying
	do(w, trust.RootKeyRekeyed, &cluster.RootKeyRekeyedRequest{KeyID: "gone"})
	w.wantKeys("one inactive", "two active")
}

// resealed returns the request that replaces the value of a row.
func resealed(id, was, key, data string) *cluster.ResealRequest {
	return &cluster.ResealRequest{Values: []cluster.ResealedValue{{
		Table: safes.Name(),
		Key:   mvcc.KeyOf(id),
		Place: "right of " + id,
		Was:   trust.SealedDigest(&structs.Sealed{Data: []byte(was)}),
		Value: structs.Sealed{KeyID: key, Data: []byte(data)},
	}}}
}

func TestReseal_ReplacesOnlyTheValueThatWasRead(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	w.RootKey("two", "one", true)
	w.safe("a", "one", "old")
	right := func() string {
		s := safes.Get(w.Store.Read(), "a")
		return s.Right.KeyID + " " + string(s.Right.Data)
	}
	for _, c := range []struct {
		name, want string
		request    *cluster.ResealRequest
	}{
		{"a value that has changed under the same key", "one old", resealed("a", "older", "two", "new")},
		{"a row that is gone", "one old", resealed("b", "old", "two", "new")},
		{"the value that was read", "two new", resealed("a", "old", "two", "new")},
		{"a repeat", "two new", resealed("a", "old", "two", "newer")},
	} {
		before := safes.Get(w.Store.Read(), "a")
		do(w, trust.Reseal, c.request)
		if got := right(); got != c.want {
			t.Errorf("%s: the value is %q, want %q", c.name, got, c.want)
		}
		if before.Right.KeyID == "one" && string(before.Right.Data) != "old" {
			t.Errorf("%s: it has changed a row of a snapshot", c.name)
		}
	}

	other := resealed("a", "new", "two", "newest")
	other.Values[0].Table = "others"
	do(w, trust.Reseal, other)
	other = resealed("a", "new", "two", "newest")
	other.Values[0].Place = "left of a"
	do(w, trust.Reseal, other)
	if got := right(); got != "two new" {
		t.Errorf("a value of another place was replaced: %q", got)
	}
}

func TestReseal_RejectsAKeyThatIsGone(t *testing.T) {
	w := newFixture(t)
	w.RootKey("one", "", false)
	w.safe("a", "one", "old")
	wantKind(t, try(w, trust.Reseal, resealed("a", "old", "gone", "new")), structs.KindUnavailable)
	many := &cluster.ResealRequest{Values: make([]cluster.ResealedValue, cluster.MaxResealedValues+1)}
	wantKind(t, try(w, trust.Reseal, many), structs.KindInvalid)
	w.wantKeys("one active")
}

func TestCheck_FindsASecretWithoutItsKey(t *testing.T) {
	w := newFixture(t)
	_ = w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
		safes.Put(tx, &safe{ID: "a", Right: &structs.Sealed{KeyID: "gone"}})
		return nil
	})
	faults := state.Check(w.Store.Read())
	if len(faults) != 1 || !strings.Contains(faults[0], "root key gone is gone") {
		t.Errorf("got %q", faults)
	}
}

func TestRecover_KeepsTheKeysOfBothStates(t *testing.T) {
	for _, c := range []struct {
		name     string
		archived func(w *fixture)
		want     map[string]string
	}{
		{"an archive with a key", func(w *fixture) { w.RootKey("one", "", false) }, map[string]string{
			"one": "active", "two": "inactive", "old": "inactive",
		}},
		{"an archive without one", func(*fixture) {}, map[string]string{"two": "active", "old": "inactive"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := newFixture(t)
			before.RootKey("old", "", false)
			before.RootKey("two", "old", false)
			w := newFixture(t)
			c.archived(w)
			do(w, func(tx *state.WriteTx, _ *struct{}) error {
				state.Recover(tx, before.Store.Read(), 1)
				return nil
			}, &struct{}{})
			got := keyStates(w.Store.Read())
			for id, state := range c.want {
				if got[id] != state || len(got) != len(c.want) {
					t.Errorf("the keys are %v, want %v", got, c.want)
				}
			}
		})
	}
}
