package state_test

import (
	"testing"

	"berth/state"
	"berth/structs/access"
)

// TestRecover_HasTheModeOfTheArchive: the leader tightens it again by the configurations of the servers.
func TestRecover_HasTheModeOfTheArchive(t *testing.T) {
	for _, archived := range access.Modes {
		w := newFixture(t)
		set := func(mode string) {
			do(w, state.ACLModeChange, &access.ModeChange{Mode: mode, Loosen: true})
		}
		set(archived)
		saved := w.Save()
		for _, present := range access.Modes {
			set(present)
			if got, _ := state.ACLMode(w.restored(saved).Store.Read()); got != archived {
				t.Errorf("mode %s, an archive with %s: the mode is %s", present, archived, got)
			}
		}
	}
}
