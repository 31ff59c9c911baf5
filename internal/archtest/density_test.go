package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// TestStatements_DoOneThing rejects assignments of three or more values in one statement (results of one
// function are exempt), and initialisers of `if` that do more than declare a value.
func TestStatements_DoOneThing(t *testing.T) {
	for _, path := range sources(t) {
		for n := range ast.Preorder(parseFile(t, path)) {
			if fault := denseFault(n); fault != "" {
				t.Errorf("%s: %s", files.Position(n.Pos()), fault)
			}
		}
	}
}

// denseFault returns the fault of a statement that does several things, "" if it does one.
func denseFault(n ast.Node) string {
	switch s := n.(type) {
	case *ast.AssignStmt:
		if len(s.Lhs) >= 3 && len(s.Rhs) == len(s.Lhs) {
			return "three or more values in one assignment: write a line each"
		}
	case *ast.IfStmt:
		if hasSideEffect(s) {
			return "the initialiser of an `if` has a side effect: put it on its own line"
		}
	}
	return ""
}

func hasSideEffect(s *ast.IfStmt) bool {
	if s.Init == nil {
		return false
	}
	a, ok := s.Init.(*ast.AssignStmt)
	return !ok || a.Tok != token.DEFINE || !testsOneOf(s.Cond, a.Lhs)
}

// testsOneOf reports whether a condition uses one of the declared values.
func testsOneOf(cond ast.Expr, declared []ast.Expr) bool {
	used := map[string]bool{}
	ast.Inspect(cond, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			used[id.Name] = true
		}
		return true
	})
	return slices.ContainsFunc(declared, func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && used[id.Name]
	})
}

func TestDenseFault_FindsStatements(t *testing.T) {
	for statement, faulty := range map[string]bool{
		"a, b, c = 1, 2, 3":           true,
		"a, b, c := 1, 2, 3":          true,
		"a, b = 1, 2":                 false,
		"a, b, c := f()":              false,
		"if err = f(); err != nil {}": true,
		"if a++; a > 1 {}":            true,
		"if f(); a > 1 {}":            true,
		"if a := f(); b > 1 {}":       true,
		"if a := f(); a > 1 {}":       false,
		"if a > 1 {}":                 false,
	} {
		found := false
		for n := range ast.Preorder(parseBody(t, statement)) {
			found = found || denseFault(n) != ""
		}
		if found != faulty {
			t.Errorf("%s: a fault is found: got %t, want %t", statement, found, faulty)
		}
	}
}

// parseBody returns a file with one function, which has the statements.
func parseBody(t *testing.T, statements string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+statements+"\n}", 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
