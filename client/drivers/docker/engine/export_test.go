package engine

import "testing"

// LowerMaxAnswer lowers the bound on an answer until the end of the test.
func LowerMaxAnswer(t *testing.T, bytes int64) {
	usual := maxAnswer
	maxAnswer = bytes
	t.Cleanup(func() { maxAnswer = usual })
}
