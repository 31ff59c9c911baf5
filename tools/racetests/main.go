// Racetests prints a line for each package of its arguments that has tests which may start a goroutine: its
// folder, and those tests as an expression for `go test -run`. In the other tests of the package, the race
// detector has nothing to compare.
//
// It reads names and not types: a function counts if it starts a goroutine, or mentions the name of a
// function of its package that counts. So it prints too many tests rather than too few. The tests of another
// package look for the races of that package.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// starters are the names of what runs a function on a goroutine of its own.
var starters = map[string]bool{
	"AfterFunc":   true,
	"Go":          true,
	"Parallel":    true,
	"RunParallel": true,
	"httptest":    true,
}

// function is a function of a package, with all that has its name: methods of several types count as one.
type function struct {
	starts   bool
	mentions map[string]bool
}

func main() {
	for _, dir := range os.Args[1:] {
		tests, err := startingTests(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "racetests:", err)
			os.Exit(1)
		}
		if len(tests) > 0 {
			fmt.Printf("%s ^(%s)$\n", dir, strings.Join(tests, "|"))
		}
	}
}

// startingTests returns the names of the tests in a folder that may start a goroutine.
func startingTests(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}

	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no Go files", dir)
	}

	functions := map[string]*function{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}

		for _, d := range f.Decls {
			addDecl(functions, d)
		}
	}

	spread(functions)

	var tests []string
	for name, f := range functions {
		if f.starts && isTest(name) {
			tests = append(tests, name)
		}
	}

	slices.Sort(tests)
	return tests, nil
}

// isTest reports whether `go test` runs a function of a name.
func isTest(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Example", "Fuzz"}, func(start string) bool {
		return strings.HasPrefix(name, start)
	})
}

// addDecl adds the functions and the variables of a declaration: a variable may have a function.
func addDecl(functions map[string]*function, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		addNode(functions, d.Name.Name, d)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			for _, name := range v.Names {
				addNode(functions, name.Name, v)
			}
		}
	}
}

func addNode(functions map[string]*function, name string, root ast.Node) {
	f := functions[name]
	if f == nil {
		f = &function{mentions: map[string]bool{}}
		functions[name] = f
	}

	for n := range ast.Preorder(root) {
		switch n := n.(type) {
		case *ast.GoStmt:
			f.starts = true
		case *ast.Ident:
			f.mentions[n.Name] = true
			f.starts = f.starts || starters[n.Name]
		}
	}
}

// spread lets each function count that mentions one which counts.
func spread(functions map[string]*function) {
	for changed := true; changed; {
		changed = false
		for _, f := range functions {
			if f.starts {
				continue
			}
			for name := range f.mentions {
				other := functions[name]
				f.starts = f.starts || other != nil && other.starts
			}
			changed = changed || f.starts
		}
	}
}
