package job_test

import (
	"strings"
	"testing"

	"berth/cli"
	"berth/cli/clitest"
)

// runLine runs a command line without quotes in this process.
func runLine(t *testing.T, line string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), strings.Fields(line)...)
}

// runArgs runs the command line of some arguments in this process.
func runArgs(t *testing.T, args []string) (code int, out, errs string) {
	t.Helper()
	return clitest.Run(t, cli.Tree(), args...)
}
