package structs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	"berth/tools/codecgen"
)

var update = flag.Bool("update", false, "write the golden files again")

const fieldsGolden = "testdata/fields.golden"

// TestFields_OnlyGrow compares every field of the wire types with a list. A listed name or type stays,
// because older servers, nodes, snapshots and tools know it. -update adds new fields to the list.
func TestFields_OnlyGrow(t *testing.T) {
	now := wireFields(t)
	if *update {
		if err := os.WriteFile(fieldsGolden, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(fieldsGolden)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(golden)), "\n") {
		listed[line] = true
	}
	for _, line := range now {
		if !listed[line] {
			t.Errorf("not listed: %s (if it is new, run `make goldens`)", line)
		}
		delete(listed, line)
	}
	for line := range listed {
		t.Errorf("gone or changed: %s (others still send and expect it)", line)
	}
}

// wireFields lists the fields of the exported structs of all wire packages as
// "Type.Field type json=x msgpack=y", with " level=z" for a field that names its level.
func wireFields(t *testing.T) (lines []string) {
	t.Helper()
	declared := map[string]string{} // the file of each struct
	for _, folder := range codecgen.WirePackages {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			for name, s := range structsOf(t, file) {
				if declared[name] != "" {
					t.Errorf("%s and %s both declare %s", declared[name], file, name)
				}
				declared[name] = file
				lines = append(lines, fieldsOf(name, s)...)
			}
		}
	}
	sort.Strings(lines)
	return lines
}

// structsOf returns the exported structs of a file that is no test.
func structsOf(t *testing.T, file string) map[string]*ast.StructType {
	t.Helper()
	if strings.HasSuffix(file, "_test.go") {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*ast.StructType{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Name.IsExported() || spec.TypeParams != nil {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			all[spec.Name.Name] = s
		}
		return true
	})
	return all
}

// typeName returns a type as the list has it, without the names of the wire packages.
func typeName(e ast.Expr) string {
	name := types.ExprString(e)
	for _, folder := range codecgen.WirePackages {
		name = strings.ReplaceAll(name, path.Base(folder)+".", "")
	}
	return name
}

func fieldsOf(name string, s *ast.StructType) (lines []string) {
	for _, f := range s.Fields.List {
		var tag reflect.StructTag
		if f.Tag != nil {
			tag = reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		}
		typ := typeName(f.Type)
		if len(f.Names) == 0 {
			lines = append(lines, name+" embeds "+typ)
		}
		for _, n := range f.Names {
			if !n.IsExported() {
				continue
			}
			asJSON := nameIn(tag.Get("json"), n.Name)
			asMsgpack := nameIn(tag.Get("codec"), asJSON)
			line := name + "." + n.Name + " " + typ + " json=" + asJSON + " msgpack=" + asMsgpack
			if of, ok := tag.Lookup("level"); ok { // see package level
				line += " level=" + of
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func nameIn(tag, otherwise string) string {
	name, _, _ := strings.Cut(tag, ",")
	if name == "" {
		return otherwise
	}
	return name
}
