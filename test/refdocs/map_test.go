package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
)

const (
	mapPage    = "docs/map.md"
	mapWords   = 5
	mapChanges = 33
	// mostUnlisted is the most lines of a folder of the second level that the map leaves out.
	mostUnlisted = 2500
)

var (
	boldWord   = regexp.MustCompile(`\*\*([a-z]+)\*\*`)
	packageRow = regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\| ([0-9,]+) \\| (.+) \\|$")
	changeRow  = regexp.MustCompile("^\\| [^|]+ \\| `([a-z_0-9/]+\\.go)`: (`[^`]+`(?:, `[^`]+`)*) \\|$")
)

// mapSection returns the text below a heading of the second level of docs/map.md.
func mapSection(t *testing.T, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(readDoc(t, mapPage), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", mapPage, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// TestMap_HasWordsOfTheGlossary holds the bold words, which may be plurals, against the terms of the
// glossary.
func TestMap_HasWordsOfTheGlossary(t *testing.T) {
	words := boldWord.FindAllStringSubmatch(mapSection(t, "Five words"), -1)
	if len(words) != mapWords {
		t.Errorf("%s has %d bold words, want %d", mapPage, len(words), mapWords)
	}
	glossary := readDoc(t, "docs/glossary.md")
	for _, m := range words {
		if !strings.Contains(glossary, "\n| "+strings.TrimSuffix(m[1], "s")+" | ") {
			t.Errorf("the glossary has no %q", m[1])
		}
	}
}

// TestMap_ListsThePackages holds the folders with product code, and their sizes to a quarter. -update writes
// the sizes again.
func TestMap_ListsThePackages(t *testing.T) {
	sizes := folderSizes(t)
	listed := map[string]bool{}
	page := readDoc(t, mapPage)
	now := packageRow.ReplaceAllStringFunc(page, func(line string) string {
		m := packageRow.FindStringSubmatch(line)
		listed[m[1]] = true
		said, err := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
		is := sizes[m[1]]
		if err != nil || is == 0 {
			t.Errorf("%s lists %s with %q lines, and it has %d", mapPage, m[1], m[2], is)
		}

		if off := max(said-is, is-said); off <= is/4+10 {
			return line
		}
		return strings.Replace(line, "| "+m[2]+" |", "| "+humanize.Comma(rounded(is))+" |", 1)
	})

	for folder, lines := range sizes {
		depth := strings.Count(folder, "/") + 1
		if !listed[folder] && (depth == 1 || depth == 2 && lines >= mostUnlisted) {
			t.Errorf("%s lacks the package %s, which has %d lines", mapPage, folder, lines)
		}
	}
	writePage(t, mapPage, page, now)
}

// rounded returns a size for readers.
func rounded(lines int) int64 {
	step := int64(10)
	if lines >= 1000 {
		step = 100
	}
	return (int64(lines) + step/2) / step * step
}

// writePage writes a page that has changed with -update, and fails without.
func writePage(t *testing.T, name, was, now string) {
	t.Helper()
	if now == was {
		return
	}
	if !*update {
		t.Fatalf("%s is not current; run `make goldens`", name)
	}
	if err := os.WriteFile(filepath.Join("..", "..", name), []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

// folderSizes counts the lines of product that is written by hand, in each folder with those below it.
func folderSizes(t *testing.T) map[string]int {
	t.Helper()
	sizes := map[string]int{}
	for name, text := range filesWith(t, ".go") {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_gen.go") ||
			strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, "_templ.go") {
			continue
		}
		lines := strings.Count(text, "\n")
		for folder := filepath.Dir(name); folder != "."; folder = filepath.Dir(folder) {
			sizes[folder] += lines
		}
	}
	return sizes
}

// TestMap_ChangesLeadToPlaces opens the place of each change.
func TestMap_ChangesLeadToPlaces(t *testing.T) {
	rows := 0
	for line := range strings.Lines(mapSection(t, "To change something")) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| to change |") {
			continue
		}
		rows++
		m := changeRow.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("this is not | text | `file.go`: `identifier`, ... |: %s", line)
			continue
		}
		p := newPlace(m[1], m[2])
		declared := declarations(t, p.file)
		for _, name := range p.names {
			if declared[name] == 0 {
				t.Errorf("%s declares no %s", p.file, name)
			}
		}
	}
	if rows != mapChanges {
		t.Errorf("%s has %d changes, want %d", mapPage, rows, mapChanges)
	}
}
