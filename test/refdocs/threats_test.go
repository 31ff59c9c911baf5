package refdocs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The pages whose tables have tests in the last column.
const (
	threatsPage    = "docs/operations/threats.md"
	advisoriesPage = "docs/operations/advisories.md"
)

var (
	testDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	testsInCell  = regexp.MustCompile("^`(?:Test|Fuzz)[A-Za-z0-9_]+`(?:, `(?:Test|Fuzz)[A-Za-z0-9_]+`)*$")
	testShown    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	advisoryID   = regexp.MustCompile(`^(CVE-20[0-9]{2}-[0-9]{4,}|nomad#[0-9]+ \(20[0-9]{2}\))(, |$)`)
)

// TestThreats_NameTestsThatExist holds the last column of each table of the pages of threats and of
// advisories: each row has tests, and all of them exist.
func TestThreats_NameTestsThatExist(t *testing.T) {
	declared := map[string]bool{}
	for name, text := range filesWith(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bench/peer/") {
			continue
		}
		for _, m := range testDeclared.FindAllStringSubmatch(text, -1) {
			declared[m[1]] = true
		}
	}

	rows := 0
	for line := range strings.Lines(readDoc(t, threatsPage) + readDoc(t, advisoriesPage)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		tests := strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(line, "| ") || tests == "tests" {
			continue
		}
		rows++
		if !testsInCell.MatchString(tests) {
			t.Errorf("the last cell is no list of tests: %s", line)
		}
		for _, m := range testShown.FindAllStringSubmatch(tests, -1) {
			if !declared[m[1]] {
				t.Errorf("a page names %s, which no file declares", m[1])
			}
		}
	}
	if rows < 70 {
		t.Errorf("the pages have %d rows with tests", rows)
	}
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
