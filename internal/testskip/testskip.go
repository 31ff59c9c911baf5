// Package testskip skips tests that need more than a machine has, and makes the skips visible: `go test`
// shows a skip only with -v. The script that runs all tests names a file, and at its end shows what the tests
// wrote to it.
package testskip

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileVar is the environment variable that names the file.
const fileVar = "BERTH_SKIPS"

// Lacking skips a test because the machine lacks something, and records the name of the test and the lack.
func Lacking(t testing.TB, what string) {
	t.Helper()
	if path := os.Getenv(fileVar); path != "" {
		if err := record(path, t.Name()+": "+what); err != nil {
			t.Fatalf("writing down that the test is skipped for %s: %v", what, err)
		}
	}
	t.Skip(what)
}

// record appends a line to a file that other tests write to, too.
func record(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, strings.ReplaceAll(line, "\n", " "))
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
