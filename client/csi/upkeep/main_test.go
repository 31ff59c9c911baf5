package upkeep

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"berth/client/csi/helper"
	"berth/test/kit"
)

// TestMain is also the helper's program, and the server of a file system.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case kit.FUSEArg:
			os.Exit(kit.ServeFUSE(os.Args[2:]))
		case helper.FitrimArg:
			os.Exit(helper.Fitrim(os.Args[2:]))
		case helper.ProbeArg:
			os.Exit(helper.Probe(os.Args[2:]))
		case helper.StatfsArg:
			os.Exit(helper.Statfs(os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}
