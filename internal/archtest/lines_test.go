package archtest

import (
	"os"
	"path/filepath"
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
			if tooLong(path, line) {
				t.Errorf("%s:%d: more than %d columns", path, i+1, maxColumns)
			}
		}
	}
}

// tooLong reports whether a line has to be wrapped. Tests and benchmarks may have long strings.
func tooLong(path, line string) bool {
	if utf8.RuneCountInString(line) <= maxColumns {
		return false
	}
	path = filepath.ToSlash(path)
	test := strings.HasSuffix(path, "_test.go") || within(path, []string{root + "/bench", root + "/test"})
	return !test || !longText.MatchString(line)
}

func TestTooLong_FindsLines(t *testing.T) {
	text := `"` + strings.Repeat("x", 50) + `"`
	code := strings.Repeat("x", maxColumns-10)
	for _, c := range []struct {
		path, line string
		want       bool
	}{
		{"state/claim.go", strings.Repeat("é", maxColumns), false},
		{"state/claim.go", strings.Repeat("é", maxColumns+1), true},
		{"state/claim.go", code + text, true},
		{"state/claim_test.go", code + text, false},
		{"state/claim_test.go", code + strings.Repeat("x", 50), true},
		{"test/cluster/cluster.go", code + text, false},
		{"bench/peer/cmd/plot/main.go", code + text, false},
		{"testing/x.go", code + text, true},
	} {
		if got := tooLong(root+"/"+c.path, c.line); got != c.want {
			t.Errorf("%s: %s: got %t, want %t", c.path, c.line, got, c.want)
		}
	}
}
