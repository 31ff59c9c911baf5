// Package statetest has the fixture of the tests of state and of the packages below it, and a write and
// queries that only tests need. The queries scan whole tables.
package statetest

import (
	"iter"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// Write changes rows in an entry of its own, for tests of what has no command yet.
func Write(t testing.TB, s *state.Store, change func(tx *state.WriteTx) error) {
	t.Helper()
	err := s.Write(s.Index()+1, change)
	if err != nil {
		t.Fatal(err)
	}
}

// EndedClaims yields the claims that outlive their allocations.
func EndedClaims(tx *state.ReadTx) iter.Seq[*structs.CSIClaim] {
	return func(yield func(*structs.CSIClaim) bool) {
		for node := range csi.NodesWithEndedClaims(tx) {
			for c := range csi.EndedClaimsOfNode(tx, node) {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// EvalsByStatus yields the evaluations with a status.
func EvalsByStatus(tx *state.ReadTx, status string) iter.Seq[*structs.Evaluation] {
	return func(yield func(*structs.Evaluation) bool) {
		for e := range state.EvalsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
			if e.Status == status && !yield(e) {
				return
			}
		}
	}
}
