package refdocs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

const threatsPage = "docs/operations/threats.md"

var (
	testDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	testsInCell  = regexp.MustCompile("^`(?:Test|Fuzz)[A-Za-z0-9_]+`(?:, `(?:Test|Fuzz)[A-Za-z0-9_]+`)*$")
	testShown    = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	advisoryID   = regexp.MustCompile(`^(CVE-20[0-9]{2}-[0-9]{4,}|nomad#[0-9]+ \(20[0-9]{2}\))(, |$)`)
)

// TestThreats_NameTestsThatExist holds the last column of each table of the page of threats: each row has
// tests, and all of them exist.
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
	for line := range strings.Lines(readDoc(t, threatsPage)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		tests := strings.TrimSpace(cells[len(cells)-1])
		if !strings.HasPrefix(line, "| ") || tests == "tests" {
			continue
		}
		rows++
		if !testsInCell.MatchString(tests) {
			t.Errorf("%s: the last cell is no list of tests: %s", threatsPage, line)
		}
		for _, m := range testShown.FindAllStringSubmatch(tests, -1) {
			if !declared[m[1]] {
				t.Errorf("%s names %s, which no file declares", threatsPage, m[1])
			}
		}
	}
	if rows < 70 {
		t.Errorf("%s has %d rows with tests", threatsPage, rows)
	}
}

// TestThreats_ListAdvisoriesOnceFromTheNewest holds the table of advisories.
func TestThreats_ListAdvisoriesOnceFromTheNewest(t *testing.T) {
	_, section, found := strings.Cut(readDoc(t, threatsPage), "\n## Advisories of the peer\n")
	if !found {
		t.Fatalf("%s has no advisories", threatsPage)
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
