package structs

import "testing"

func TestMachineID_KeepsWhatTheMachineHasShown(t *testing.T) {
	for _, c := range []struct{ kept, now, want MachineID }{
		{"", "product:1 machine:1", "product:1 machine:1"},
		{"machine:1", "product:1 machine:1", "product:1 machine:1"},
		{"product:1 machine:1", "machine:1", "product:1 machine:1"}, // the agent is not root any more
		{"product:1 machine:1", "product:1", "product:1 machine:1"},
		{"product:1 machine:1", "product:1 machine:2", "product:1 machine:2"}, // a new system
		{"product:1 machine:1", "product:2 machine:1", "product:2 machine:1"}, // it votes there from now on
		{"product:1 machine:1", "machine:2", "machine:2"},
		{"product:1", "machine:2", "machine:2"},
		{"product:1 machine:1", "", ""},
	} {
		if got := c.kept.Update(c.now); got != c.want {
			t.Errorf("%q and then %q: %q, want %q", c.kept, c.now, got, c.want)
		}
	}
}
