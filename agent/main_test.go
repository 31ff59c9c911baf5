package agent

import (
	"os"
	"testing"

	"berth/client/drivers/executor"
)

// TestMain makes the test binary the agent's executable, too: a node tries a sandbox of exec with it.
// Without it the binary would run all tests there.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}
