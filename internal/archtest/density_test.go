package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The most that production code may have of statements that do several things at once. Both numbers only
// become smaller; 0 is the aim.
const (
	mostParallel    = 5
	mostSideEffects = 3
)

// TestDensity_DoesNotGrow counts assignments of three or more values in one statement (results of one
// function are exempt) and initialisers of `if` that do something else than to declare a value.
func TestDensity_DoesNotGrow(t *testing.T) {
	parallel, sideEffects := 0, 0
	for _, p := range packages(t) {
		for _, name := range p.GoFiles {
			if strings.HasSuffix(name, "_gen.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch {
				case isParallel(n):
					parallel++
				case hasSideEffect(n):
					sideEffects++
				}
				return true
			})
		}
	}
	t.Logf("%d parallel assignments, %d initialisers with a side effect", parallel, sideEffects)
	if parallel > mostParallel {
		t.Errorf("%d assignments of three or more values, %d at most: write a line each", parallel, mostParallel)
	}
	if sideEffects > mostSideEffects {
		t.Errorf("%d `if` have an initialiser with a side effect, %d at most: put it on its own line",
			sideEffects, mostSideEffects)
	}
}

func isParallel(n ast.Node) bool {
	a, ok := n.(*ast.AssignStmt)
	return ok && len(a.Lhs) >= 3 && len(a.Rhs) == len(a.Lhs)
}

func hasSideEffect(n ast.Node) bool {
	s, ok := n.(*ast.IfStmt)
	if !ok || s.Init == nil {
		return false
	}
	a, ok := s.Init.(*ast.AssignStmt)
	return !ok || a.Tok != token.DEFINE
}
