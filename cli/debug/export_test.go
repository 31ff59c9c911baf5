package debug

import "time"

// SetCaptureTime sets the bound on captures until undo.
func SetCaptureTime(d time.Duration) (undo func()) {
	was := captureTime
	captureTime = d
	return func() { captureTime = was }
}
