package refdocs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	headingLine = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	pageLink    = regexp.MustCompile(`\]\(([^)\s#]*)(#[^)\s]*)?\)`)
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestDocs_LinkToHeadingsThatExist follows the links of all pages to files, and to the headings of pages. A
// heading that is there twice has no anchor of its own.
func TestDocs_LinkToHeadingsThatExist(t *testing.T) {
	pages := allPages(t)
	followed := 0
	for name, text := range pages {
		seen := map[string]bool{}
		for _, anchor := range anchors(text) {
			if seen[anchor] && strings.Contains(text, "](#"+anchor+")") {
				t.Errorf("%s links to the heading #%s, which is there twice", name, anchor)
			}
			seen[anchor] = true
		}
		for _, m := range pageLink.FindAllStringSubmatch(prose(text), -1) {
			if strings.Contains(m[1], ":") { // a URL
				continue
			}
			followed++
			checkLink(t, pages, name, m[1], strings.TrimPrefix(m[2], "#"))
		}
	}
	if followed < 150 {
		t.Errorf("followed %d links", followed)
	}
}

// checkLink fails if a page links to a file that is not there, or to a heading that its page does not have.
func checkLink(t *testing.T, pages map[string]string, from, link, anchor string) {
	t.Helper()
	to := from
	if link != "" {
		to = path.Join(path.Dir(from), link)
	}

	if _, err := os.Stat(filepath.Join("..", "..", to)); err != nil {
		t.Errorf("%s links to %s, which does not exist", from, to)
		return
	}
	if anchor != "" && !slices.Contains(anchors(pages[to]), anchor) {
		t.Errorf("%s links to #%s of %s, which has no such heading", from, anchor, to)
	}
}

// A text names a page, and may name a heading of it before or behind.
var (
	pageName      = regexp.MustCompile(`\bdocs/[A-Za-z0-9_/.-]+\.md\b`)
	headingBefore = regexp.MustCompile(`see ([A-Z][a-z ]+) in (docs/[a-z0-9/-]+\.md)`)
	headingBehind = regexp.MustCompile(`(docs/[a-z0-9/-]+\.md), "?([A-Z][A-Za-z ]+)`)
	sentenceLead  = regexp.MustCompile(`(?m)^\*\*([^*]+)\.\*\*`)
)

// TestTexts_NamePagesThatExist holds the pages and headings that code, examples, scripts and pages name, for
// example in the text of an error. The bold words before a paragraph count as a heading.
func TestTexts_NamePagesThatExist(t *testing.T) {
	pages := allPages(t)
	named, headings := 0, 0
	checkHeading := func(file, heading, page string) {
		headings++
		text := pages[page]
		for _, m := range slices.Concat(headingLine.FindAllStringSubmatch(text, -1),
			sentenceLead.FindAllStringSubmatch(text, -1)) {
			if strings.HasPrefix(heading, m[1]) {
				return
			}
		}
		t.Errorf("%s names %q of %s, which has no such heading", file, heading, page)
	}

	for file, text := range filesWith(t, ".go", ".hcl", ".sh", ".md", ".yml", ".service") {
		if !strings.Contains(text, "docs/") {
			continue
		}
		text = strings.Join(strings.Fields(text), " ")
		for _, page := range pageName.FindAllString(text, -1) {
			named++
			if _, ok := pages[page]; !ok {
				t.Errorf("%s names %s, which does not exist", file, page)
			}
		}
		for _, m := range headingBefore.FindAllStringSubmatch(text, -1) {
			checkHeading(file, m[1], m[2])
		}
		for _, m := range headingBehind.FindAllStringSubmatch(text, -1) {
			checkHeading(file, m[2], m[1])
		}
	}
	if named < 80 || headings < 5 {
		t.Errorf("found %d names of pages, %d of headings", named, headings)
	}
}

// allPages returns all pages of the repository by name.
func allPages(t *testing.T) map[string]string {
	t.Helper()
	return filesWith(t, ".md")
}

// filesWith returns the files of the repository that end in one of the extensions, by name.
func filesWith(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	files := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}

		hidden := strings.HasPrefix(d.Name(), ".") && name != "."
		if d.IsDir() && (hidden || name == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && slices.Contains(extensions, filepath.Ext(name)) {
			files[filepath.ToSlash(name)] = readDoc(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// prose returns a page without blocks and spans of code.
func prose(page string) string {
	return codeSpan.ReplaceAllString(codeBlock.ReplaceAllString(page, ""), "")
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) (list []string) {
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(words, " ", "-"))
	}
	return list
}
