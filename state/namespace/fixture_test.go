package namespace_test

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"berth/state"
	"berth/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is that of the state, with namespaces and quotas.
type fixture struct{ *statetest.Fixture }

func newFixture(t rapid.TB) *fixture { return &fixture{statetest.New(t)} }

func try[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) error {
	w.T.Helper()
	return statetest.Try(w.Fixture, fn, p)
}

func do[P any](w *fixture, fn func(*state.WriteTx, *P) error, p *P) {
	w.T.Helper()
	statetest.Do(w.Fixture, fn, p)
}
