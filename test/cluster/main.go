package cluster

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs a package's tests and fails when goroutines are left. The gossip's attempts to reach servers
// that are gone may take some seconds to time out.
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
