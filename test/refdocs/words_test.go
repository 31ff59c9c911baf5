package refdocs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// wordStart finds the words of a name: NodeCapacity is node and capacity.
	wordStart  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	letters    = regexp.MustCompile(`[A-Za-z]+`)
	avoidedRow = regexp.MustCompile(`(?m)^\| ([a-z, ]+) \| [^|]+ \|([^|]*)\|$`)
)

// avoidedWords reads the section of docs/glossary.md, and the texts in which each word stays.
func avoidedWords(t *testing.T) (avoided map[string]bool, stays *strings.Replacer) {
	t.Helper()
	_, section, found := strings.Cut(readDoc(t, "docs/glossary.md"), "\n## Words to avoid\n")
	if !found {
		t.Fatal("docs/glossary.md has no words to avoid")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	avoided = map[string]bool{}
	var texts []string
	for _, m := range avoidedRow.FindAllStringSubmatch(section, -1) {
		for word := range strings.SplitSeq(m[1], ", ") {
			avoided[word] = word != "not" // the head of the table
		}
		for text := range strings.SplitSeq(m[2], ",") {
			text = strings.Trim(text, "` ")
			if text != "" {
				texts = append(texts, text, "")
			}
		}
	}
	return avoided, strings.NewReplacer(texts...)
}

// TestWords_AreTermsOfTheGlossary looks for the words to avoid in all code and all pages. Records of
// decisions and the changelog keep the words of their time.
func TestWords_AreTermsOfTheGlossary(t *testing.T) {
	avoided, stays := avoidedWords(t)
	if len(avoided) < 10 {
		t.Fatalf("the glossary avoids %d words; is the form of its table another?", len(avoided))
	}

	root := filepath.Join("..", "..")
	list := exec.Command("git", "-C", root, "ls-files", "--", "*.go", "*.templ", "*.md", "*.sh", "*.hcl")
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}

	for name := range strings.FieldsSeq(string(files)) {
		kept := strings.HasPrefix(name, "docs/adr/") || name == "docs/glossary.md" || name == "CHANGELOG.md" ||
			strings.HasSuffix(name, ".pb.go")
		if kept {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed and not committed
		}
		if err != nil {
			t.Fatal(err)
		}

		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = wordStart.ReplaceAllString(stays.Replace(line), "$1 $2")
			for _, word := range letters.FindAllString(line, -1) {
				if avoided[strings.ToLower(word)] {
					t.Errorf("%s:%d has the word %q; see the glossary", name, number, word)
				}
			}
		}
	}
}
