package volume_test

import (
	"testing"

	"berth/cli"
	"berth/cli/clitest"
)

// runArgs runs the command line of some arguments in this process.
func runArgs(t *testing.T, args []string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), args...)
}
