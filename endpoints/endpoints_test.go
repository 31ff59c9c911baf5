package endpoints_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/tools/codecgen"
)

// methodsInSource reads the declarations of all methods, with whether each writes.
func methodsInSource(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, folder := range codecgen.WirePackages {
		here, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil || len(here) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		files = append(files, here...)
	}
	methods := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_gen.go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			addMethod(t, methods, n)
			return true
		})
	}
	return methods
}

// addMethod adds the method that a node of the syntax declares: Read[Req, Resp]("Noun.Verb") or Write, in
// another package structs.Read.
func addMethod(t *testing.T, methods map[string]bool, n ast.Node) {
	t.Helper()
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return
	}
	generic, ok := call.Fun.(*ast.IndexListExpr)
	lit, isText := call.Args[0].(*ast.BasicLit)
	if !ok || !isText {
		return
	}
	name, err := strconv.Unquote(lit.Value)
	if err != nil {
		t.Fatal(err)
	}
	methods[name] = strings.TrimPrefix(types.ExprString(generic.X), "structs.") == "Write"
}

func TestEndpoints_ServeEachMethod(t *testing.T) {
	want, got := methodsInSource(t), map[string]bool{}
	// A node serves those of clients to servers, and another port those of machines without a valid certificate.
	maps.DeleteFunc(want, func(name string, _ bool) bool {
		return strings.HasPrefix(name, "Client") || strings.HasPrefix(name, "Machine")
	})
	for _, e := range endpointstest.New(t).List() {
		got[e.Name] = e.Write
	}
	if len(want) < 40 || !maps.Equal(want, got) {
		t.Errorf("methods and endpoints differ:\nmethods   %v\nendpoints %v",
			slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	}
}
