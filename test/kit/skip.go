// Package kit has the helpers of tests that many packages need. It knows no rows and imports no package of
// berth, so that each package may use it.
//
//   - SkipLacking skips a test that needs more than a machine has, and makes the skip visible: `go test`
//     shows a skip only with -v. The script that runs all tests names a file, to which the tests write, and
//     shows its content at the end.
//   - FreePorts and InOwnNetwork give a test a network of its own, MountDisk a small disk, which FillDisk
//     fills to the last byte.
//   - HangExec and HangLookUps make the start of a program hang, between fork and exec or in the look-up of
//     the program, as a file system that does not answer makes it hang.
//   - MountFUSE mounts a file system whose server is a process of the test: it can hang, swallow requests,
//     and die.
//   - PlainProgram builds the test without the race detector, for the processes that it starts.
//   - RunTranscript runs a test that is written as a file of commands and their output.
//   - Meter measures the loop of a benchmark.
package kit

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileVar is the environment variable that names the file.
const fileVar = "BERTH_SKIPS"

// SkipLacking skips a test because the machine lacks something, and records the name of the test and the
// lack.
func SkipLacking(t testing.TB, lack string) {
	t.Helper()
	if path := os.Getenv(fileVar); path != "" {
		line := t.Name() + ": " + lack
		if err := record(path, line); err != nil {
			t.Fatalf("recording that the test is skipped for %s: %v", lack, err)
		}
	}
	t.Skip(lack)
}

// record appends a line to a file that other tests write to, too.
func record(path, line string) error {
	const flags = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	line = strings.ReplaceAll(line, "\n", " ")
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}
