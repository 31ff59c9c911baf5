package archtest

import (
	"go/ast"
	"path/filepath"
	"testing"
)

// ownDependencies are the types of the leader's loops that have dependencies of their own.
var ownDependencies = map[string]string{
	"control/loop.Common":      "it is the frame",
	"control/workqueue.Runner": "it reads rows alone, and its Keys are those of rows",
}

// TestLoops_UseCommon: a type of the leader's loops takes the store and the log from loop.Common, which it or
// what it is made of embeds. So a new dependency of all loops is one field.
func TestLoops_UseCommon(t *testing.T) {
	users, found := 0, map[string]bool{}
	for _, p := range packages(t) {
		if !within(p.ImportPath, []string{"berth/server/control"}) {
			continue
		}
		for _, name := range p.GoFiles {
			for n := range ast.Preorder(parseFile(t, filepath.Join(p.Dir, name))) {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					continue
				}
				own, embeds := dependencies(spec)
				if embeds {
					users++
				}
				typ := "control" + p.ImportPath[len("berth/server/control"):] + "." + spec.Name.Name
				if own {
					found[typ] = true
				}
				if own && ownDependencies[typ] == "" {
					t.Errorf("%s has a store or a proposer of its own: embed loop.Common", typ)
				}
			}
		}
	}
	if users < 15 || len(found) != len(ownDependencies) {
		t.Errorf("%d types embed loop.Common, and %v have their own: update this test", users, found)
	}
}

// dependencies reports whether a type has a store or a proposer of its own, and whether it embeds
// loop.Common.
func dependencies(spec *ast.TypeSpec) (own, embeds bool) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return false, false
	}
	for _, f := range s.Fields.List {
		typ := f.Type
		if pointer, ok := typ.(*ast.StarExpr); ok {
			typ = pointer.X
		}
		name := lastName(typ)
		embeds = embeds || name == "Common" && len(f.Names) == 0
		own = own || name == "Store" || name == "Proposer"
	}
	return own, embeds
}

func TestDependencies_FindsFields(t *testing.T) {
	for fields, want := range map[string][2]bool{
		"Store *state.Store":         {true, false},
		"proposer fsm.Proposer":      {true, false},
		"loop.Common; N int":         {false, true},
		"Common; N int":              {false, true},
		"Common loop.Common":         {false, false},
		"N int; F func()":            {false, false},
		"loop.Common; s state.Store": {true, true},
	} {
		for n := range ast.Preorder(parseBody(t, "type t struct { "+fields+" }")) {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if own, embeds := dependencies(spec); [2]bool{own, embeds} != want {
				t.Errorf("%q: %t and %t, want %v", fields, own, embeds, want)
			}
		}
	}
}
