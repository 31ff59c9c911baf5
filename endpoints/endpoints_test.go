package endpoints

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// methodsInSource reads the list of methods that servers serve, with whether each writes.
func methodsInSource(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../structs/method.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		generic, ok := call.Fun.(*ast.IndexListExpr)
		lit, isText := call.Args[0].(*ast.BasicLit)
		if !ok || !isText {
			return true
		}
		name, err := strconv.Unquote(lit.Value)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(name, "ClientCSI.") {
			methods[name] = generic.X.(*ast.Ident).Name == "write"
		}
		return true
	})
	return methods
}

func TestEveryMethodIsServed(t *testing.T) {
	want, got := methodsInSource(t), map[string]bool{}
	for _, e := range newServer(t).List() {
		got[e.Name] = e.Write
	}
	if len(want) < 40 || !maps.Equal(want, got) {
		t.Errorf("methods and endpoints differ:\nmethods   %v\nendpoints %v",
			slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
}
