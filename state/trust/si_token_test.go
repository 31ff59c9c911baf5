package trust_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// wantTokens checks all tokens: each as "alloc task accessor", those that the leader revokes with "-" and the
// time in seconds.
func (w *fixture) wantTokens(want ...string) {
	w.T.Helper()
	var got []string
	for t := range schema.SITokens.Scan(w.Store.Read()) {
		text := t.AllocID + " " + t.TaskName + " " + t.AccessorID
		if t.RevokeTime != 0 {
			text += fmt.Sprint(" -", t.RevokeTime/1e9)
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		w.T.Errorf("got tokens %q, want %q", got, want)
	}
	revoked := 0
	for range trust.RevokedSIToken(w.Store.Read()) {
		revoked++
	}
	for _, text := range want {
		if bytes.Contains([]byte(text), []byte(" -")) {
			revoked--
		}
	}
	if revoked != 0 {
		w.T.Errorf("%d tokens too many are revoked", revoked)
	}
}

func meshFixture(t *testing.T) *fixture {
	w := newFixture(t)
	w.Node("n1")
	w.Alloc("a1", "j", "n1")
	w.Alloc("a2", "j", "n1")
	return w
}

func TestSITokensRegister_StoresTheTokensOfARunningAllocation(t *testing.T) {
	w := meshFixture(t)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "x"}, [2]string{"web", "y"}))
	first := trust.ClusterID(w.Store.Read())
	do(w, trust.SITokensRegister, w.Tokens("a2", [2]string{"proxy", "z"}))
	w.wantTokens("a1 proxy x", "a1 web y", "a2 proxy z")
	if first == "" || trust.ClusterID(w.Store.Read()) != first {
		t.Errorf("the cluster has the ID %q, then %q", first, trust.ClusterID(w.Store.Read()))
	}
	w.Client("n1", "a1", structs.AllocComplete)
	for name, c := range map[string]struct {
		edit func(*access.SITokenAccessor)
		kind structs.Kind
	}{
		"an ended allocation": {
			func(a *access.SITokenAccessor) { a.AllocID = "a1" }, structs.KindPrecondition},
		"an unknown allocation":     {func(a *access.SITokenAccessor) { a.AllocID = "a9" }, structs.KindNotFound},
		"another node":              {func(a *access.SITokenAccessor) { a.NodeID = "n2" }, structs.KindNotFound},
		"a token without an ID":     {func(a *access.SITokenAccessor) { a.AccessorID = "" }, structs.KindInvalid},
		"a token without its owner": {func(a *access.SITokenAccessor) { a.TaskName = "" }, structs.KindInvalid},
	} {
		p := w.Tokens("a2", [2]string{"web", "first"}, [2]string{"web", "x"})
		c.edit(p.Accessors[1])
		if err := try(w, trust.SITokensRegister, p); !structs.IsKind(err, c.kind) {
			t.Errorf("%s: got error %v, want %s", name, err, c.kind)
		}
	}
	if got := slices.Collect(trust.SITokensOf(w.Store.Read(), "a2")); len(got) != 1 {
		t.Errorf("a rejected request has left %d tokens", len(got)-1)
	}
}

func TestSITokens_AreGivenUpWithTheirAllocation(t *testing.T) {
	w := meshFixture(t)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "x"}))
	do(w, trust.SITokensRegister, w.Tokens("a2", [2]string{"proxy", "y"}))
	w.Stop("a1", "") // its tasks still run
	w.wantTokens("a1 proxy x", "a2 proxy y")
	w.Client("n1", "a1", structs.AllocComplete)
	ended := fmt.Sprint("a1 proxy x -", w.Index)
	w.wantTokens(ended, "a2 proxy y")

	restored := state.New()
	if err := restored.Load(bytes.NewReader(w.Save())); err != nil {
		t.Fatal(err)
	}
	w.Store = restored
	w.Check()
	w.wantTokens(ended, "a2 proxy y")
	do(w, state.Reap, &structs.ReapRequest{Allocs: []string{"a1"}, WriteOptions: w.Now()})
	w.wantTokens(ended, "a2 proxy y") // the row outlives the allocation
	for range 2 {
		do(w, trust.SITokensDeregister, w.Tokens("a1", [2]string{"proxy", "x"}))
		w.wantTokens("a2 proxy y")
	}
}

func TestSITokens_AreGivenUpAfterAFailureOrForNewOnes(t *testing.T) {
	w := meshFixture(t)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "x"}, [2]string{"web", "y"}))
	do(w, trust.SITokensGiveUp, w.Tokens("a1", [2]string{"web", "y"}, [2]string{"web", "unknown"}))
	failed := fmt.Sprint("a1 web y -", w.Index+60)
	w.wantTokens("a1 proxy x", failed)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "new"}, [2]string{"web", "new"}))
	w.wantTokens("a1 proxy new", fmt.Sprint("a1 proxy x -", w.Index+60), "a1 web new", failed)
}

func TestRecover_KeepsTheTokensOfTheReplacedState(t *testing.T) {
	w := meshFixture(t)
	do(w, trust.SITokensRegister, w.Tokens("a1", [2]string{"proxy", "x"}))
	archive := w.Save()
	do(w, trust.SITokensDeregister, w.Tokens("a1", [2]string{"proxy", "x"})) // a second revocation does no harm
	w.Alloc("a3", "j", "n1")
	do(w, trust.SITokensRegister, w.Tokens("a2", [2]string{"proxy", "later"}))
	do(w, trust.SITokensRegister, w.Tokens("a3", [2]string{"proxy", "gone"}))

	w = w.restored(archive)
	w.wantTokens("a1 proxy x", "a2 proxy later", "a3 proxy gone -0")
}
