package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"berth/internal/version"
)

var releaseTitle = regexp.MustCompile(`(?m)^## (.*)$`)

func TestChangelog_BeginsWithThisVersion(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	first := releaseTitle.FindSubmatch(text)
	if first == nil || string(first[1]) != version.Version {
		t.Errorf("CHANGELOG.md begins with %q, want version %s", first, version.Version)
	}
}
