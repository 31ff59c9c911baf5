package state_test

import (
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// TestACLModeChange_OnlyTightens: the configuration of a server tightens the mode once there is a token, and
// never loosens it. An operator does both.
func TestACLModeChange_OnlyTightens(t *testing.T) {
	const off, log, enforce = access.ModeOff, access.ModeLog, access.ModeEnforce
	for name, c := range map[string]struct {
		now, to      string
		loosen       bool
		bootstrapped bool
		want         string
	}{
		"a configuration tightens":             {off, log, false, true, log},
		"a configuration tightens twice":       {off, enforce, false, true, enforce},
		"a configuration does not loosen":      {enforce, log, false, true, enforce},
		"a configuration does not turn off":    {log, off, false, true, log},
		"without a token nothing is tightened": {off, enforce, false, false, off},
		"an operator loosens":                  {enforce, log, true, true, log},
		"an operator turns off":                {enforce, off, true, true, off},
		"an operator tightens":                 {off, enforce, true, true, enforce},
	} {
		t.Run(name, func(t *testing.T) {
			db := mvcc.Open(&schema.All)
			index := uint64(0)
			write := func(fn func(tx *mvcc.WriteTx) error) {
				t.Helper()
				index++
				if err := db.Write(index, fn); err != nil {
					t.Fatal(err)
				}
			}
			if c.now != off {
				write(func(tx *mvcc.WriteTx) error {
					return state.ACLModeChange(tx, &access.ModeChange{Mode: c.now, Loosen: true})
				})
			}
			if c.bootstrapped {
				write(func(tx *mvcc.WriteTx) error {
					return state.ACLBootstrap(tx, &access.BootstrapChange{Token: &access.Token{
						AccessorID: "a", SecretHash: []byte("s"), Type: access.TypeManagement,
					}})
				})
			}
			write(func(tx *mvcc.WriteTx) error {
				return state.ACLModeChange(tx, &access.ModeChange{Mode: c.to, Loosen: c.loosen})
			})
			if got, _ := state.ACLMode(db.Read()); got != c.want {
				t.Errorf("the mode is %s, want %s", got, c.want)
			}
		})
	}
}

func TestACLModeChange_RejectsOtherWords(t *testing.T) {
	err := mvcc.Open(&schema.All).Write(1, func(tx *mvcc.WriteTx) error {
		return state.ACLModeChange(tx, &access.ModeChange{Mode: "none", Loosen: true})
	})
	if !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("%v", err)
	}
}
