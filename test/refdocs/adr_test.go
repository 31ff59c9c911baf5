package refdocs

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The bounds on the lines of an ADR. A superseded one has its title, its status and one sentence.
const (
	mostADRLines        = 60
	mostSupersededLines = 6
)

// gatheringADRs are the pages that state what several superseded ones decided, with their bounds.
var gatheringADRs = map[int]int{115: 75, 116: 75}

var (
	adrName   = regexp.MustCompile(`^([0-9]{4})-[a-z0-9-]+\.md$`)
	adrTitle  = regexp.MustCompile(`^# ([0-9]+)\. `)
	adrStatus = regexp.MustCompile(`^Status: (?:proposed|accepted|superseded by ADR [0-9]+|` +
		`accepted; in part superseded by ADR [0-9]+ \([^)]+\))\. Date: 2[0-9]{3}-[01][0-9]-[0-3][0-9]\.$`)
	adrNumber = regexp.MustCompile(`ADR ([0-9]+)`)
)

// TestADRs_HaveStatusAndDate holds the form of each decision: its number, its status with its date in the
// third line, a later decision where it is superseded, and its length.
func TestADRs_HaveStatusAndDate(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "adr")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]string{}
	for _, f := range files {
		m := adrName.FindStringSubmatch(f.Name())
		if m == nil {
			t.Errorf("%s: expected a name like 0001-some-words.md", f.Name())
			continue
		}
		number, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		if seen[number] != "" {
			t.Errorf("%s has the number of %s", f.Name(), seen[number])
		}
		seen[number] = f.Name()
	}
	highest := slices.Max(slices.Collect(maps.Keys(seen)))
	for number, name := range seen {
		if number > 0 { // 0 is the template
			checkADR(t, number, highest, readDoc(t, filepath.Join("docs", "adr", name)))
		}
	}
}

// checkADR checks the form of one ADR.
func checkADR(t *testing.T, number, highest int, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	most := cmp.Or(gatheringADRs[number], mostADRLines)
	if strings.Contains(text, "\nStatus: superseded by ") {
		most = mostSupersededLines
	}
	if len(lines) < 4 || len(lines) > most {
		t.Errorf("ADR %d has %d lines; expected 4 to %d", number, len(lines), most)
		return
	}
	if m := adrTitle.FindStringSubmatch(lines[0]); m == nil || m[1] != strconv.Itoa(number) {
		t.Errorf("ADR %d has the title %q", number, lines[0])
	}
	if !adrStatus.MatchString(lines[2]) {
		t.Errorf("ADR %d: %q is no status with a date; see 0000-template.md", number, lines[2])
	}
	for _, m := range adrNumber.FindAllStringSubmatch(lines[2], -1) {
		later, err := strconv.Atoi(m[1])
		if err != nil || later <= number || later > highest {
			t.Errorf("ADR %d cannot be superseded by ADR %s", number, m[1])
		}
	}
}
