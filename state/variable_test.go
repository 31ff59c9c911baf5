package state_test

import (
	"fmt"
	"testing"
	"time"

	"berth/state"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// aVariable is a write of a variable.
func aVariable(path string) *access.VariableChange {
	return &access.VariableChange{
		Namespace: "default",
		Path:      path,
		Sealed:    &structs.Sealed{KeyID: "k", Data: []byte("sealed")},
		Now:       5e9,
	}
}

// by returns the write with the ID of a lock.
func by(id string, p *access.VariableChange) *access.VariableChange {
	p.Lock = &access.VariableLock{ID: id, TTL: 15 * time.Second, LockDelay: 15 * time.Second}
	return p
}

// indexed returns the write with the index that it expects.
func indexed(index uint64, p *access.VariableChange) *access.VariableChange {
	p.CheckIndex = &index
	return p
}

func TestVariablePut_ChecksTheIndexOfItsWriter(t *testing.T) {
	w := keyedFixture(t)
	wantKind(t, try(w, state.VariablePut, indexed(7, aVariable("a"))), structs.KindConflict)
	do(w, state.VariablePut, indexed(0, aVariable("a")))
	wantKind(t, try(w, state.VariablePut, indexed(0, aVariable("a"))), structs.KindConflict)
	first := state.Variable(w.Store.Read(), "default", "a")
	do(w, state.VariablePut, indexed(first.ModifyIndex, aVariable("a")))
	wantKind(t, try(w, state.VariablePut, indexed(first.ModifyIndex, aVariable("a"))), structs.KindConflict)
	wantKind(t, try(w, state.VariableDelete, indexed(first.ModifyIndex, aVariable("a"))), structs.KindConflict)
	do(w, state.VariablePut, aVariable("a"))
	second := state.Variable(w.Store.Read(), "default", "a")
	if second.CreateIndex != first.CreateIndex || second.ModifyIndex == first.ModifyIndex {
		t.Errorf("got the indexes %+v after %+v", second.Indexes, first.Indexes)
	}
	do(w, state.VariableDelete, indexed(second.ModifyIndex, aVariable("a")))
	do(w, state.VariableDelete, aVariable("a")) // it is gone
	if state.Variable(w.Store.Read(), "default", "a") != nil {
		t.Error("the variable is still there")
	}
}

func TestVariablePut_NeedsAValidPathAndANamespace(t *testing.T) {
	w := keyedFixture(t)
	for _, path := range []string{"", "/a", "a/", "a//b", "a.b", "a b", "nomad", "nomad/x", "nomad/jobsx"} {
		wantKind(t, try(w, state.VariablePut, aVariable(path)), structs.KindInvalid)
	}
	for _, path := range []string{
		"a", "A-b_c~d/e", "nomadic", "nomad/jobs", "nomad/jobs/j/g", "nomad/volumes/default/v",
		"nomad/job-templates/web",
	} {
		do(w, state.VariablePut, aVariable(path))
	}
	elsewhere := aVariable("a")
	elsewhere.Namespace = "prod"
	wantKind(t, try(w, state.VariablePut, elsewhere), structs.KindPrecondition)
	bare := &access.VariableChange{Namespace: "default", Path: "a"}
	wantKind(t, try(w, state.VariablePut, bare), structs.KindInvalid)
}

func TestVariablePut_IsBoundedByItsNamespace(t *testing.T) {
	w := keyedFixture(t)
	big := aVariable("big")
	big.Sealed = &structs.Sealed{KeyID: "k", Data: make([]byte, structs.MaxStoredBytes)}
	wantKind(t, try(w, state.VariablePut, aVariable("a")), "")
	wantKind(t, try(w, state.VariablePut, big), structs.KindPrecondition)
	err := w.Store.Write(w.Index+1, func(tx *state.WriteTx) error {
		for i := range structs.MaxStoredVars {
			p := aVariable(fmt.Sprintf("v%d", i))
			schema.Variables.Put(tx, &access.Variable{Namespace: p.Namespace, Path: p.Path, Sealed: p.Sealed})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Index++
	wantKind(t, try(w, state.VariablePut, aVariable("another")), structs.KindPrecondition)
	do(w, state.VariablePut, aVariable("v1"))
}

func TestVariableLock_ExcludesOtherWriters(t *testing.T) {
	w := keyedFixture(t)
	do(w, state.VariableLock, by("one", &access.VariableChange{Namespace: "default", Path: "a", Now: 5e9}))
	wantKind(t, try(w, state.VariableLock, by("two", aVariable("a"))), structs.KindConflict)
	wantKind(t, try(w, state.VariablePut, aVariable("a")), structs.KindConflict)
	wantKind(t, try(w, state.VariablePut, by("two", aVariable("a"))), structs.KindConflict)
	wantKind(t, try(w, state.VariableDelete, aVariable("a")), structs.KindConflict)
	wantKind(t, try(w, state.VariableUnlock, by("two", aVariable("a"))), structs.KindConflict)
	do(w, state.VariablePut, by("one", aVariable("a")))
	if v := state.Variable(w.Store.Read(), "default", "a"); v.Sealed == nil || v.Lock.ID != "one" {
		t.Errorf("the holder has written %+v", v)
	}
	do(w, state.VariableUnlock, by("one", aVariable("a")))
	wantKind(t, try(w, state.VariableUnlock, by("one", aVariable("a"))), structs.KindConflict)
	wantKind(t, try(w, state.VariablePut, by("one", aVariable("a"))), structs.KindConflict)
	wantKind(t, try(w, state.VariableUnlock, aVariable("a")), structs.KindConflict)
	do(w, state.VariableLock, by("two", aVariable("a")))
	do(w, state.VariableDelete, by("two", aVariable("a")))
}

// After its end, the former holder writes no more, others write, and nobody gets the lock until its delay is
// over.
func TestVariableLockExpire_HoldsTheDelay(t *testing.T) {
	w := keyedFixture(t)
	do(w, state.VariableLock, by("one", aVariable("a")))
	expire := func(id string, over bool) {
		do(w, state.VariableLockExpire, &access.VariableExpiry{
			Namespace: "default",
			Path:      "a",
			LockID:    id,
			DelayOver: over,
		})
	}
	expire("former", false)
	expire("one", true)
	wantKind(t, try(w, state.VariablePut, aVariable("a")), structs.KindConflict)
	expire("one", false)
	wantKind(t, try(w, state.VariablePut, by("one", aVariable("a"))), structs.KindConflict)
	do(w, state.VariablePut, aVariable("a"))
	wantKind(t, try(w, state.VariableLock, by("two", aVariable("a"))), structs.KindConflict)
	expire("one", false)
	expire("one", true)
	expire("one", true)
	do(w, state.VariableLock, by("two", aVariable("a")))
}

func TestNamespaceDelete_KeepsOneWithVariables(t *testing.T) {
	w := keyedFixture(t)
	do(w, namespace.Apply, &cluster.NamespaceApplyRequest{
		Definition: &cluster.Namespace{Name: "prod"},
	})
	inProd := func() *access.VariableChange {
		p := aVariable("a")
		p.Namespace = "prod"
		return p
	}
	do(w, state.VariablePut, inProd())
	err := try(w, namespace.Delete, &cluster.NamespaceDeleteRequest{Name: "prod"})
	wantKind(t, err, structs.KindPrecondition)
	do(w, state.VariableDelete, inProd())
	do(w, namespace.Delete, &cluster.NamespaceDeleteRequest{Name: "prod"})
}
