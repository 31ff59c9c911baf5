package simulate

import (
	"os"
	"regexp"
	"testing"
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
	if len(rows) != len(properties) {
		t.Fatalf("docs/reliability.md has %d properties, and the code %d", len(rows), len(properties))
	}
	for i, p := range properties {
		if r := rows[i]; r[1] != string(p.name) || r[2] != p.guarantee || r[3] != p.faults {
			t.Errorf("docs/reliability.md has %q, want %s: %s (%s)", r[0], p.name, p.guarantee, p.faults)
		}
	}
}
