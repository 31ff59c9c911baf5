package refdocs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages of threats and advisories.
const (
	threatsPage    = "docs/operations/threats.md"
	advisoriesPage = "docs/operations/advisories.md"
)

// testedPages have tables that end with a column of tests, with the fewest rows of such tables.
var testedPages = map[string]int{
	threatsPage:                       94,
	"SECURITY.md":                     15,
	advisoriesPage:                    40,
	"docs/reliability.md":             15,
	"docs/operations/fencing.md":      15,
	"docs/operations/acl.md":          20,
	"docs/operations/lost-nodes.md":   30,
	"docs/operations/troubleshoot.md": 20,
}

var (
	testDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	testsInCell  = regexp.MustCompile("^`(?:Test|Fuzz)[A-Za-z0-9_]+`(?:, `(?:Test|Fuzz)[A-Za-z0-9_]+`)*$")
	testShown    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	advisoryID   = regexp.MustCompile(`^(CVE-20[0-9]{2}-[0-9]{4,}|nomad#[0-9]+ \(20[0-9]{2}\))(, |$)`)
)

// TestPages_NameTestsThatExist holds the tables of all pages whose last column is "tests": each row has
// tests, and all of them exist.
func TestPages_NameTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	for name, text := range filesWith(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/peer/") {
			continue
		}
		for _, m := range testDeclared.FindAllStringSubmatch(text, -1) {
			declared[m[1]] = true
		}
	}

	pages := filesWith(t, ".md")
	for name := range testedPages {
		if pages[name] == "" {
			t.Errorf("there is no page %s", name)
		}
	}
	for name, text := range pages {
		rows := testRows(text)
		for _, row := range rows {
			if !testsInCell.MatchString(endCell(row)) {
				t.Errorf("%s: the last cell is no list of tests: %s", name, row)
			}
			for _, m := range testShown.FindAllStringSubmatch(endCell(row), -1) {
				if !declared[m[1]] {
					t.Errorf("%s names %s, which no file declares", name, m[1])
				}
			}
		}
		if len(rows) < testedPages[name] {
			t.Errorf("%s has %d rows with tests, want %d", name, len(rows), testedPages[name])
		}
	}
}

// testRows returns the rows of the tables whose last column is "tests".
func testRows(text string) (rows []string) {
	header := ""
	for line := range strings.Lines(text) {
		switch {
		case !strings.HasPrefix(line, "|"):
			header = ""
		case header == "":
			header = line
		case strings.HasPrefix(line, "| ") && endCell(header) == "tests" && !strings.HasPrefix(line, "| ---"):
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return rows
}

// endCell returns the last cell of a row.
func endCell(row string) string {
	cells := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
	return strings.TrimSpace(cells[len(cells)-1])
}

// TestThreats_ListAdvisoriesOnceFromTheNewest holds the table of advisories.
func TestThreats_ListAdvisoriesOnceFromTheNewest(t *testing.T) {
	_, section, found := strings.Cut(readDoc(t, advisoriesPage), "\n## Advisories of the peer\n")
	if !found {
		t.Fatalf("%s has no advisories", advisoriesPage)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	year := regexp.MustCompile(`20[0-9]{2}`)
	var ids, years []string
	for line := range strings.Lines(section) {
		id, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !isRow || id == "advisory" {
			continue
		}
		if !advisoryID.MatchString(id) {
			t.Errorf("%q is no ID of an advisory", id)
		}
		if slices.Contains(ids, id) {
			t.Errorf("%s is there twice", id)
		}
		ids = append(ids, id)
		years = append(years, year.FindString(id))
	}
	slices.Reverse(years)
	if len(ids) < 25 || !slices.IsSorted(years) {
		t.Errorf("expected 25 advisories or more, the newest year first; got %d: %v", len(ids), ids)
	}
}
