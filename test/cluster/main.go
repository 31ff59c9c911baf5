package cluster

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and fails if they leave goroutines behind. It waits some seconds, because
// gossip dials stopped servers until a timeout.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		var left error
		for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
			left = goleak.Find()
			if left == nil {
				break
			}
		}
		if left != nil {
			fmt.Fprintln(os.Stderr, left)
			code = 1
		}
	}
	os.Exit(code)
}
