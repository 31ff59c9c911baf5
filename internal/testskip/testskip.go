// Package testskip skips tests that need more than a machine has, and makes the skips visible: `go test`
// shows a skip only with -v. The script that runs all tests names a file, to which the tests write, and shows
// its content at the end.
package testskip

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileVar is the environment variable that names the file.
const fileVar = "BERTH_SKIPS"

// Lacking skips a test because the machine lacks something, and records the name of the test and the lack.
func Lacking(t testing.TB, lack string) {
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
