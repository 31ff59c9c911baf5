package server

import (
	"runtime/debug"
	"testing"
)

func TestLower_LowersGOGC(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for usual, during := range map[int]int{200: 50, 20: 20, -1: -1} {
		debug.SetGCPercent(usual)
		end := lowerGOGC(50)
		if got := debug.SetGCPercent(during); got != during {
			t.Errorf("GOGC is %d instead of %d meanwhile, want %d", got, usual, during)
		}
		end()
		if got := debug.SetGCPercent(usual); got != usual {
			t.Errorf("GOGC is %d afterwards, want %d", got, usual)
		}
	}
}
