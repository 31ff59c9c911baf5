package server

import (
	"runtime/debug"
	"testing"
)

func TestCollectOften_LowersGOGC(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for usual, during := range map[int]int{200: restoreGC, 20: 20, -1: -1} {
		debug.SetGCPercent(usual)
		end := collectOften()
		if got := debug.SetGCPercent(during); got != during {
			t.Errorf("GOGC is %d instead of %d during a restore, want %d", got, usual, during)
		}
		end()
		if got := debug.SetGCPercent(usual); got != usual {
			t.Errorf("GOGC is %d after a restore, want %d", got, usual)
		}
	}
}
