package refdocs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	dutyTest = regexp.MustCompile(`(?m)^func TestDuty_((?:[A-L][0-9]+_)+)`)
	dutyRow  = regexp.MustCompile(`^\| ([A-L][0-9]+) \|`)
)

// TestDuties_NameTheirTests holds docs/reference/csi-duties.md against the tests: each duty that a test is
// named for is in the page, with the package of the test in its last column.
func TestDuties_NameTheirTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page := filepath.Join(root, "docs", "reference", "csi-duties.md")
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := dutiesShown(t, root)
	lines := strings.Split(string(was), "\n")
	for i, l := range lines {
		m := dutyRow.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		cells := strings.Split(l, " | ")
		cells[len(cells)-1] = strings.Join(shown[m[1]], ", ") + " |"
		lines[i] = strings.Join(cells, " | ")
		delete(shown, m[1])
	}
	for duty, where := range shown {
		t.Errorf("%s names duty %s, which is not in %s", where, duty, page)
	}
	now := strings.Join(lines, "\n")
	if now == string(was) {
		return
	}
	if !*update {
		t.Fatalf("%s does not name the tests there are; run `make goldens`", page)
	}
	if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dutiesShown finds the packages with tests for each duty.
func dutiesShown(t *testing.T, root string) map[string][]string {
	t.Helper()
	shown := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, m := range dutyTest.FindAllStringSubmatch(string(src), -1) {
			for _, duty := range strings.Split(strings.TrimSuffix(m[1], "_"), "_") {
				if !slices.Contains(shown[duty], dir) {
					shown[duty] = append(shown[duty], dir)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}
