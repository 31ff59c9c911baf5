package refdocs

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	headingLine = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	pageLink    = regexp.MustCompile(`\]\(([a-z0-9_./-]*\.md)?(#[^)]*)?\)`)
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$")
	notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestDocs_LinkToHeadingsThatExist follows the links of the hand-written pages to pages and their headings. A
// heading that is there twice has no anchor of its own.
func TestDocs_LinkToHeadingsThatExist(t *testing.T) {
	pages := handWritten(t)
	followed := 0
	for name, text := range pages {
		seen := map[string]bool{}
		for _, anchor := range anchors(text) {
			if seen[anchor] && strings.Contains(text, "](#"+anchor+")") {
				t.Errorf("%s links to the heading #%s, which is there twice", name, anchor)
			}
			seen[anchor] = true
		}
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			to := name
			if m[1] != "" {
				to = path.Join(filepath.Dir(name), m[1])
			}
			target, known := pages[to]
			if !known {
				target = readDoc(t, to)
			}
			followed++
			anchor := strings.TrimPrefix(m[2], "#")
			if anchor != "" && !slices.Contains(anchors(target), anchor) {
				t.Errorf("%s links to #%s of %s, which has no such heading", name, anchor, to)
			}
		}
	}
	if followed < 60 {
		t.Errorf("followed %d links", followed)
	}
}

// anchors returns the anchors of the headings of a page.
func anchors(page string) (list []string) {
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		words := notInAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		list = append(list, strings.ReplaceAll(words, " ", "-"))
	}
	return list
}
