package archtest

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// smallPackage is the number of lines of code below which the comment of a package says why it is apart.
const smallPackage = 150

// reasons begin the sentence with which the comment of a small package says why it is one.
var reasons = regexp.MustCompile(`\b(is|are) apart\b|\bsmall because\b|\ba package of its own\b`)

// TestSmallPackages_SayWhyTheyAreApart: a reader asks why their code is not beside its caller.
func TestSmallPackages_SayWhyTheyAreApart(t *testing.T) {
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, "berth/")
		if within(rel, []string{"test", "tools", "bench", "packaging", "cmd", "internal/archtest"}) ||
			strings.HasSuffix(rel, "test") {
			continue
		}
		lines := 0
		comment := ""
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			if generated(path) {
				lines += smallPackage // its size is that of what it was made of
				continue
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines += linesOfCode(b)
			comment += packageComment(t, path)
		}
		if lines < smallPackage && !reasons.MatchString(comment) {
			t.Errorf("%s has %d lines of code, and its comment does not say why it is apart", rel, lines)
		}
	}
}

// linesOfCode counts the lines that are neither empty nor a comment.
func linesOfCode(src []byte) (n int) {
	for line := range bytes.Lines(src) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			n++
		}
	}
	return n
}

// packageComment returns the comment of the package clause of a file, "" for none.
func packageComment(t *testing.T, path string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(file.Doc.Text(), "\n", " ")
}
