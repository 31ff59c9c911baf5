package agent

import (
	"runtime/debug"
	"testing"
)

func TestSetGOGC_RaisesItForServers(t *testing.T) {
	for _, tc := range []struct {
		name, gogc, limit string
		server            bool
		want              int
	}{
		{"a server", "", "", true, serverGOGC},
		{"a node", "", "", false, 77},
		{"GOGC is given", "50", "", true, 77},
		{"GOMEMLIMIT is given", "", "1GiB", true, 77},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("GOGC", tc.gogc)
			t.Setenv("GOMEMLIMIT", tc.limit)
			before := debug.SetGCPercent(77)
			c := DefaultConfig()
			c.Server.Enabled = tc.server
			setGOGC(&c)
			if got := debug.SetGCPercent(before); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
