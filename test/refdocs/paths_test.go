package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sourcePath matches a folder or file of the repository in code marks. A name behind a dot, such as that of a
// function, is not part of it.
var sourcePath = regexp.MustCompile("`((?:agent|api|cli|client|cmd|consul|csi|endpoints|fsm|internal|jobspec|" +
	"plugins|rpc|scheduler|scripts|server|state|structs|test)/[a-z0-9_/-]+(?:\\.(?:go|sh|hcl))?)`")

// otherPaths are the pages in which such a name may be another thing: decisions and the list of changes tell
// of their own time, the pages for operators of data directories, and a module has a root of its own.
var otherPaths = []string{"docs/adr/", "docs/operations/", "bench/", "CHANGELOG.md"}

// TestPages_NameSourcesThatExist holds the folders and files that pages name.
func TestPages_NameSourcesThatExist(t *testing.T) {
	named := 0
	for name, text := range allPages(t) {
		if slices.ContainsFunc(otherPaths, func(start string) bool { return strings.HasPrefix(name, start) }) {
			continue
		}
		for _, m := range sourcePath.FindAllStringSubmatch(text, -1) {
			named++
			if _, err := os.Stat(filepath.Join("..", "..", m[1])); err != nil {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
		}
	}
	if named < 100 {
		t.Errorf("found %d names of sources", named)
	}
}
