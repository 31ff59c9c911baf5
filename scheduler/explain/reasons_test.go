package explain

import (
	"fmt"
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

// leastStates is the least number of stuck states that the situations show.
const leastStates = 150

// unshown has the reasons that no situation shows, and why.
var unshown = map[string]string{
	"job %s waits for nothing: no node has to run it now": "nothing waits",
	"node %s is deleted": "a node with claims is not deleted",
	"no node may run it: each is down, drains, is not eligible, " +
		"or not in the job's datacenters": "the scheduler has named no node",
}

// TestWhy_ShowsEachReason: each reason in the source is in the golden file, so a situation leads to it.
func TestWhy_ShowsEachReason(t *testing.T) {
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}

	formats := reasonFormats(t)
	for place, format := range formats {
		parts := strings.Split(verb.ReplaceAllString(format, "\x00"), "\x00")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		shown := regexp.MustCompile(`(?m)^ *` + strings.Join(parts, ".*")).Match(text)
		switch {
		case !shown && unshown[format] == "":
			t.Errorf("%s: no situation shows the reason %q", place, format)
		case shown && unshown[format] != "":
			t.Errorf("%s: a situation shows the reason %q, which needs no exception", place, format)
		}
	}
	if len(formats) < 60 {
		t.Errorf("%d reasons, want all of the source", len(formats))
	}
}

func TestWhy_KnowsManyStuckStates(t *testing.T) {
	stuck := 0
	for _, s := range allSituations() {
		if !s.calm {
			stuck++
		}
	}
	if stuck < leastStates {
		t.Errorf("%d situations in which something waits, want at least %d", stuck, leastStates)
	}
}

var verb = regexp.MustCompile(`%[a-z]`)

// reasonFormats returns the formats of all reasons of the package by their places.
func reasonFormats(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}

	formats := map[string]string{}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(file) {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || fmt.Sprint(call.Fun) != "reason" {
				continue
			}
			if format := constant(call.Args[0]); format != "" && format != "%s" {
				formats[set.Position(call.Pos()).String()] = format
			}
		}
	}
	return formats
}

// constant returns the value of a constant text, "" for any other expression.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return constant(e.X) + constant(e.Y)
	}
	return ""
}
