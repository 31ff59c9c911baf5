package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"berth/internal/version"
)

// mostChangelog bounds the changelog, in bytes: it says what a release is, and not how it came about.
const mostChangelog = 10_000

var releaseTitle = regexp.MustCompile(`(?m)^## (.*)$`)

func TestChangelog_BeginsWithThisVersionAndIsShort(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > mostChangelog {
		t.Errorf("CHANGELOG.md has %d bytes, at most %d", len(text), mostChangelog)
	}
	first := releaseTitle.FindSubmatch(text)
	if first == nil || string(first[1]) != version.Version {
		t.Errorf("CHANGELOG.md begins with %q, want version %s", first, version.Version)
	}
}
