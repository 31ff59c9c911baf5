package state_test

import (
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/statetest"
	"berth/structs"
)

// fixture is the shared one, with the functions that only the tests of this package need.
type fixture struct{ *statetest.Fixture }

func newFixture(t rapid.TB) *fixture { return &fixture{statetest.New(t)} }

func threeNodes(t testing.TB, attach bool) *fixture {
	return &fixture{statetest.ThreeNodes(t, attach)}
}

func threeNodesWithDB(t testing.TB) *fixture { return &fixture{statetest.ThreeNodesWithDB(t)} }

func keyedFixture(t rapid.TB) *fixture { return &fixture{statetest.Keyed(t)} }

// restored returns a fixture whose state went back from that of w to a saved one.
func (w *fixture) restored(saved []byte) *fixture { return &fixture{w.Restored(saved)} }

// try applies one entry at the next index and returns its result.
func try[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) error {
	w.T.Helper()
	return statetest.Try(w.Fixture, fn, p)
}

// do applies one entry that must succeed.
func do[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) {
	w.T.Helper()
	statetest.Do(w.Fixture, fn, p)
}

// The shared rows.
var (
	aNode           = statetest.Node
	anInstance      = statetest.Instance
	attaching       = statetest.Attaching
	attachingHalves = statetest.AttachingHalves
	ofDriver        = statetest.OfDriver
	aJob            = statetest.Job
	aVolume         = statetest.Volume
	aClaim          = statetest.Claim
	aJoinToken      = statetest.JoinToken
	aCertificate    = statetest.Certificate
	anAuthority     = statetest.Authority
	revokeNode      = statetest.RevokeNode
	aRootKey        = statetest.RootKey
	wantKind        = statetest.WantKind
	wantRejected    = statetest.WantRejected
)

const (
	snw  = structs.CSISingleNodeWriter
	mnr  = structs.CSIMultiNodeReader
	mnsw = structs.CSIMultiNodeSingleWriter
	mnmw = structs.CSIMultiNodeMultipleWriter

	rd = structs.ClaimRead
	wr = structs.ClaimWrite

	waiting = structs.ClaimWaiting
	granted = structs.ClaimGranted
)
