package refdocs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// namedPage is a page of the documentation in a text of the product, with a heading or without.
var namedPage = regexp.MustCompile(`\bdocs/([\w/-]+\.md)(#[\w-]+)?`)

// TestProduct_NamesPagesThatExist: a message that leads to a page has to lead somewhere.
func TestProduct_NamesPagesThatExist(t *testing.T) {
	found := 0
	for _, file := range productFiles(t) {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range namedPage.FindAllStringSubmatch(text, -1) {
				found++
				page, err := os.ReadFile(filepath.Join("..", "..", "docs", m[1]))
				if err != nil {
					t.Errorf("%s names %s: %v", file, m[0], err)
					continue
				}
				if m[2] != "" && !strings.Contains(headingsOf(string(page)), m[2]+"\n") {
					t.Errorf("%s names %s, and the page has no such heading", file, m[0])
				}
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("the product names %d pages", found)
	}
}

var heading = regexp.MustCompile("(?m)^#+ (.*)$")

// headingsOf returns the anchors of the headings of a page, a line each.
func headingsOf(page string) string {
	var anchors strings.Builder
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		name := strings.ToLower(strings.NewReplacer("`", "", "*", "").Replace(m[1]))
		name = regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(name, "")
		anchors.WriteString("#" + strings.ReplaceAll(name, " ", "-") + "\n")
	}
	return anchors.String()
}

// productFiles returns the Go files of the product.
func productFiles(t *testing.T) (files []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		hidden := strings.HasPrefix(entry.Name(), ".") && rel != "."
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || rel == "test" || rel == "bench"):
			return filepath.SkipDir
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
