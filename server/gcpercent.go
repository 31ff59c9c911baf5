package server

import "runtime/debug"

// lowerGOGC lowers GOGC to a percentage until the function that it returns. An operator's lower value stays,
// and so does the end of collections by the value off.
func lowerGOGC(percent int) (end func()) {
	usual := debug.SetGCPercent(percent)
	if usual < percent {
		debug.SetGCPercent(usual)
	}
	return func() { debug.SetGCPercent(usual) }
}
