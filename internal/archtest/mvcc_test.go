package archtest

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mvccUses lists all names of structs that the table store may use: none of them is a row of a user.
var mvccUses = []string{"Indexes", "Invalidf", "TableIndex"}

func TestMVCC_KnowsNoRowType(t *testing.T) {
	paths, err := filepath.Glob("../mvcc/*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("got %d files, %v; want those of mvcc", len(paths), err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for n := range ast.Preorder(parseFile(t, path)) {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			p, ok := s.X.(*ast.Ident)
			if ok && p.Name == "structs" && !slices.Contains(mvccUses, s.Sel.Name) {
				t.Errorf("%s must not use structs.%s", path, s.Sel.Name)
			}
		}
	}
}
