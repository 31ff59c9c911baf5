package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The map is one screen.
const (
	mapPage      = "docs/map.md"
	mapLines     = 60
	mapColumns   = 120
	mapSentences = 9
	mapChanges   = 12
)

// mapWords are the words without which a stranger cannot read the picture.
var mapWords = []string{
	"allocation", "claim", "command", "evaluation", "job", "plan", "plugin", "row", "task",
}

var (
	changePlace = regexp.MustCompile("^`([a-z_0-9/]+\\.go)`: (`[^`]+`(?:, `[^`]+`)*)$")
	// pictureRow is a cell of the picture: a blank, one more for a package of the area above, and a name.
	pictureRow = regexp.MustCompile(`^ ( ?)([a-z]+) +[^ ]`)
)

// TestMap_IsOneScreen holds the size of the map.
func TestMap_IsOneScreen(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(readDoc(t, mapPage)), "\n")
	if len(lines) > mapLines {
		t.Errorf("%s has %d lines, and may have %d", mapPage, len(lines), mapLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > mapColumns {
			t.Errorf("%s:%d has %d columns, and may have %d", mapPage, i+1, n, mapColumns)
		}
	}
}

// TestMap_HasNineSentences holds that each rule of the map is one sentence.
func TestMap_HasNineSentences(t *testing.T) {
	var sentences []string
	inList := false
	for line := range strings.Lines(readDoc(t, mapPage)) {
		line = strings.TrimSpace(line)
		switch {
		case numbered.MatchString(line):
			sentences = append(sentences, line)
			inList = true
		case line == "":
			inList = false
		case inList:
			sentences[len(sentences)-1] += " " + line
		}
	}

	if len(sentences) != mapSentences {
		t.Errorf("%s has %d sentences, want %d", mapPage, len(sentences), mapSentences)
	}
	for _, s := range sentences {
		if strings.Contains(s[len("1. "):], ". ") || !strings.HasSuffix(s, ".") {
			t.Errorf("this is not one sentence: %s", s)
		}
	}
}

// mapPicture returns the lines of the picture.
func mapPicture(t *testing.T) []string {
	t.Helper()
	_, text, _ := strings.Cut(readDoc(t, mapPage), "```text\n")
	picture, _, ok := strings.Cut(text, "\n```\n")
	if !ok {
		t.Fatalf("%s has no picture", mapPage)
	}
	return strings.Split(picture, "\n")
}

// TestMap_PictureHasTheAreas holds that the picture has all areas and that its packages exist.
func TestMap_PictureHasTheAreas(t *testing.T) {
	drawn := map[string]bool{}
	area := map[int]string{} // by the column of a box
	for _, line := range mapPicture(t) {
		column := 0
		for cell := range strings.SplitSeq(line, "│") {
			if m := pictureRow.FindStringSubmatch(cell); m != nil {
				folder := m[2]
				if m[1] == "" {
					area[column] = folder
				} else {
					folder = area[column] + "/" + folder
				}
				drawn[folder] = true
			}
			column += utf8.RuneCountInString(cell) + 1
		}
	}

	for folder := range drawn {
		if s, err := os.Stat(filepath.Join("..", "..", folder)); err != nil || !s.IsDir() {
			t.Errorf("%s draws %s, which does not exist", mapPage, folder)
		}
	}
	for _, l := range productAreas(t) {
		if !drawn[l] && !strings.Contains(readDoc(t, mapPage), "`"+l+"`") {
			t.Errorf("%s lacks the area %s", mapPage, l)
		}
	}
}

// productAreas returns the folders of the first level with code.
func productAreas(t *testing.T) []string {
	t.Helper()
	var areas []string
	for name := range filesWith(t, ".go") {
		area, _, ok := strings.Cut(filepath.ToSlash(name), "/")
		if ok && !slices.Contains(areas, area) {
			areas = append(areas, area)
		}
	}
	return areas
}

// TestMap_HasWordsOfTheGlossary holds the words of the picture, which may be plurals, against the glossary.
func TestMap_HasWordsOfTheGlossary(t *testing.T) {
	picture := strings.Join(mapPicture(t), "\n")
	glossary := readDoc(t, "docs/glossary.md")
	for _, word := range mapWords {
		if !strings.Contains(picture, " "+word) {
			t.Errorf("the picture has no %q", word)
		}
		if !regexp.MustCompile(`\n\| (?:[a-z ]+[,;] )*` + word + `[^|a-z]`).MatchString(glossary) {
			t.Errorf("the glossary has no %q", word)
		}
	}
}

// TestMap_ChangesLeadToPlaces opens the places of each change.
func TestMap_ChangesLeadToPlaces(t *testing.T) {
	rows := 0
	for line := range strings.Lines(readDoc(t, mapPage)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| to change |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 2 {
			t.Errorf("this is not | text | places |: %s", line)
			continue
		}
		for text := range strings.SplitSeq(cells[1], "; ") {
			m := changePlace.FindStringSubmatch(text)
			if m == nil {
				t.Errorf("this is not `file.go`: `identifier`, ...: %s", text)
				continue
			}
			p := newPlace(m[1], m[2])
			checkDeclared(t, mapPage, p, declarations(t, p.file))
		}
	}
	if rows != mapChanges {
		t.Errorf("%s has %d changes, want %d", mapPage, rows, mapChanges)
	}
}
