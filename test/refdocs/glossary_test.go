package refdocs

import (
	"regexp"
	"strings"
	"testing"
)

var glossaryRow = regexp.MustCompile(`^\| ([^|]+) \| ([^|]+) \|`)

// TestGlossary_DefinesEachTermOnce checks that no term, and no older word, is twice in docs/glossary.md.
func TestGlossary_DefinesEachTermOnce(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(readDoc(t, "docs/glossary.md")) {
		m := glossaryRow.FindStringSubmatch(line)
		if m == nil || m[1] == "term" || m[1] == "older" {
			continue
		}
		for term := range strings.SplitSeq(m[1], "; ") {
			if seen[term] {
				t.Errorf("%q is defined twice", term)
			}
			seen[term] = true
		}
	}
	if len(seen) < 50 {
		t.Errorf("the glossary has %d terms; is the form of its table another?", len(seen))
	}
}
