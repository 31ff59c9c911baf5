package simulate

import (
	"os"
	"regexp"
	"testing"

	"berth/test/guarantees"
)

// TestProperties_AreThoseOfTheDocs compares the list with docs/reliability.md.
func TestProperties_AreThoseOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| ([a-z-]+) \| (.+) \| (.+) \|$`)
	rows := row.FindAllStringSubmatch(string(page), -1)
	rows = rows[1:] // the head
	if len(rows) != len(guarantees.All) {
		t.Fatalf("docs/reliability.md has %d properties, and the code %d", len(rows), len(guarantees.All))
	}
	for i, p := range guarantees.All {
		if r := rows[i]; r[1] != string(p.Name) || r[2] != p.Guarantee || r[3] != p.Faults {
			t.Errorf("docs/reliability.md has %q, want %s: %s (%s)", r[0], p.Name, p.Guarantee, p.Faults)
		}
	}
}
