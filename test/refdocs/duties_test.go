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

// open lists the duties of level M or S that have neither a test nor a reason yet. It only gets shorter.
var open = []string{}

// TestDuties_NameTheirTests holds docs/reference/csi-duties.md against the tests. The last column of a duty
// has the packages of the tests that are named for it, else the reason why there is none.
func TestDuties_NameTheirTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page := filepath.Join(root, "docs", "reference", "csi-duties.md")
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := dutiesShown(t, root)
	lines := strings.Split(string(was), "\n")
	bare := []string{}
	for i, l := range lines {
		m := dutyRow.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		cells := strings.Split(l, " | ")
		last := lastCell(strings.TrimSuffix(cells[len(cells)-1], " |"), shown[m[1]])
		if last == "" && strings.Contains("MS", cells[3]) {
			bare = append(bare, m[1])
		}
		cells[len(cells)-1] = last + " |"
		lines[i] = strings.Join(cells, " | ")
		delete(shown, m[1])
	}
	for duty, where := range shown {
		t.Errorf("%s names duty %s, which is not in %s", where, duty, page)
	}
	if !slices.Equal(bare, open) {
		t.Errorf("the duties of level M or S with neither a test nor a reason are\n%q; the list `open` has\n%q; "+
			"give each new one a test or a reason, and take each other one from the list", bare, open)
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

// lastCell returns the last column of a duty: its packages, else the reason that the page has. A reason is
// written by hand and ends with a full stop, which no list of packages does.
func lastCell(was string, packages []string) string {
	if len(packages) == 0 && strings.HasSuffix(was, ".") {
		return was
	}
	return strings.Join(packages, ", ")
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
