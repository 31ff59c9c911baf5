package csi_test

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"berth/state"
	"berth/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is that of the state, with the functions that the tests of volumes need.
type fixture struct{ *statetest.Fixture }

func newFixture(t rapid.TB) *fixture { return &fixture{statetest.New(t)} }

func threeNodes(t testing.TB, attach bool) *fixture {
	return &fixture{statetest.ThreeNodes(t, attach)}
}

func threeNodesWithDB(t testing.TB) *fixture { return &fixture{statetest.ThreeNodesWithDB(t)} }

func (w *fixture) restored(saved []byte) *fixture { return &fixture{w.Restored(saved)} }

func try[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) error {
	w.T.Helper()
	return statetest.Try(w.Fixture, fn, p)
}

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
	creating        = statetest.Creating
	denied          = statetest.Denied
	wantKind        = statetest.WantKind
)
