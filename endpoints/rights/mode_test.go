package rights_test

import (
	"testing"

	"berth/endpoints/rights"
	"berth/structs/access"
)

// TestGate_KeepsToTheStricterMode: a server without the block, or with a looser mode, decides by the mode of
// the cluster, and a server with a stricter mode by its own.
func TestGate_KeepsToTheStricterMode(t *testing.T) {
	const off, log, enforce = access.ModeOff, access.ModeLog, access.ModeEnforce
	for _, c := range []struct{ own, stored, want string }{
		{"", off, off},
		{"", log, log},
		{"", enforce, enforce},
		{log, off, log},
		{log, enforce, enforce},
		{enforce, off, enforce},
		{enforce, log, enforce},
	} {
		g := rights.NewGate(rights.Config{Mode: c.own, Stored: func() string { return c.stored }})
		if g.Mode() != c.want || g.Enabled() != (c.want != off) || g.Enforces() != (c.want == enforce) {
			t.Errorf("%q beside %s: mode %s, enabled %t, enforces %t; want %s",
				c.own, c.stored, g.Mode(), g.Enabled(), g.Enforces(), c.want)
		}
	}
}
