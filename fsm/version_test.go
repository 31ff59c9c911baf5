package fsm

import (
	"slices"
	"testing"
)

// TestWhatIsNewNeedsAVersion: a command that came after versions did is not proposed where a server is older.
func TestWhatIsNewNeedsAVersion(t *testing.T) {
	first := []uint8{1, 2, 3, 4, 5, 6, 10, 11, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34, 35, 36, 37, 40}
	for _, c := range commands {
		needs := Needs([]byte{c.id()})
		if known := slices.Contains(first, c.id()); known != (needs == 0) || needs > Version {
			t.Errorf("%s needs version %d of %d", c.name(), needs, Version)
		}
	}
	if Needs(nil) != 0 {
		t.Error("nothing needs a version")
	}
}
