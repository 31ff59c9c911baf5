package archtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns is the most that a line of Go may have. A tab counts as one.
const maxColumns = 110

// longText matches a string that loses by a wrap: on one line it can be searched for.
var longText = regexp.MustCompile("`|\"(\\\\.|[^\"\\\\]){40}")

func TestLines_AreShort(t *testing.T) {
	for _, path := range sources(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if tooLong(line) {
				t.Errorf("%s:%d: more than %d columns", path, i+1, maxColumns)
			}
		}
	}
}

// tooLong reports whether a line has to be wrapped. A long string may pass the width.
func tooLong(line string) bool {
	return utf8.RuneCountInString(line) > maxColumns && !longText.MatchString(line)
}

func TestTooLong_FindsLines(t *testing.T) {
	text := `"` + strings.Repeat("x", 50) + `"`
	code := strings.Repeat("x", maxColumns-10)
	for line, want := range map[string]bool{
		strings.Repeat("é", maxColumns):   false,
		strings.Repeat("é", maxColumns+1): true,
		code + strings.Repeat("x", 50):    true,
		code + text:                       false,
	} {
		if got := tooLong(line); got != want {
			t.Errorf("%s: got %t, want %t", line, got, want)
		}
	}
}
