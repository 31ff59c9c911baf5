// Sizes prints how much Go code there is: files, lines, tokens and tokens per line, of the product, of
// generated code, of tests and of benchmarks. Tokens are from go/scanner, without comments, so the
// semicolon that it inserts at the end of a line counts. Lines are those with a token. Run it at the top of
// the tree.
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// groups are the rows of the table, in its order.
var groups = []string{"product", "generated", "tests", "benchmarks"}

// generated is the mark of a file that a program wrote (see `go help generate`).
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// size is how much code a group has.
type size struct{ files, lines, tokens int }

func main() {
	sizes, err := measureTree(os.DirFS("."))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(1)
	}
	fmt.Printf("%-10s %6s %8s %9s %12s\n",
		"", "files", "lines", "tokens", "tokens/line")
	for _, group := range groups {
		s := sizes[group]
		perLine := float64(s.tokens) / float64(max(s.lines, 1))
		fmt.Printf("%-10s %6d %8d %9d %12.1f\n",
			group, s.files, s.lines, s.tokens, perLine)
	}
}

// measureTree sizes the groups of a tree.
func measureTree(tree fs.FS) (map[string]size, error) {
	sizes := map[string]size{}
	visit := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if d.IsDir() {
			return skipIgnored(path)
		}

		if filepath.Ext(path) != ".go" {
			return nil
		}

		src, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}

		lines, tokens, err := countTokens(src)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}

		group := groupOf(path, src)
		s := sizes[group]
		sizes[group] = size{
			files:  s.files + 1,
			lines:  s.lines + lines,
			tokens: s.tokens + tokens,
		}

		return nil
	}
	return sizes, fs.WalkDir(tree, ".", visit)
}

// skipIgnored is fs.SkipDir for a directory that the go command ignores.
func skipIgnored(path string) error {
	base := filepath.Base(path)
	ignored := base[0] == '.' || base[0] == '_' || base == "testdata"
	if ignored && path != "." {
		return fs.SkipDir
	}
	return nil
}

// groupOf decides by the content of a file, and by the words in its path.
func groupOf(path string, src []byte) string {
	switch {
	case generated.Match(src):
		return "generated"
	case strings.Contains(path, "bench"):
		return "benchmarks"
	case strings.HasSuffix(path, "_test.go"):
		return "tests"
	}
	for dir := range strings.SplitSeq(filepath.Dir(path), "/") {
		if strings.HasPrefix(dir, "test") ||
			strings.HasSuffix(dir, "test") {
			return "tests"
		}
	}
	return "product"
}

// countTokens counts the tokens of a file and the lines that hold them.
func countTokens(src []byte) (lines, tokens int, err error) {
	var (
		s      scanner.Scanner
		faults scanner.ErrorList
	)
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, faults.Add, 0)
	last := 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}

		tokens++
		if tok == token.SEMICOLON && text == "\n" {
			continue // it is on the line of the previous token
		}

		first := file.Line(pos)
		end := first + strings.Count(text, "\n") // a raw string
		lines += end - max(first-1, last)
		last = end
	}

	if len(faults) > 0 {
		return 0, 0, faults.Err()
	}

	return lines, tokens, nil
}
