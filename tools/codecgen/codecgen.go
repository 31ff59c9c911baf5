// Package codecgen writes the msgpack codecs of a list of a package's structs: the methods of
// codec.Generated, and nothing else. They write the bytes that codec.Handle writes by reflection, which tests
// of both compare: fields by name in order, embedded structs flattened, nil where the Handle writes nil. A
// field of a type that codecgen does not know goes through the Handle.
//
// It reads source text and not the compiled package, so that it works while its output does not compile.
// `go generate ./...` writes the file again, and `make goldens` does so first. A test compares the file with
// the source.
package codecgen

//go:generate go test . -update

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the name of the generated file in a package's folder.
const File = "codec_gen.go"

// Generate returns the content of the generated file of the package in a folder, with codecs of the structs
// that are named.
func Generate(dir string, names []string) ([]byte, error) {
	pkg, err := loadPackage(dir)
	if err != nil {
		return nil, err
	}

	g := &generator{
		pkg: pkg,
		hot: map[types.Type]bool{},
	}
	var layouts []*layout
	names = slices.Sorted(slices.Values(names))
	for _, name := range names {
		named, ok := exportedStruct(pkg.Scope().Lookup(name))
		if !ok {
			return nil, fmt.Errorf("%s is no exported struct", name)
		}

		l, err := layoutOf(named)
		if err != nil {
			return nil, err
		}

		g.hot[named] = true
		layouts = append(layouts, l)
	}

	for _, l := range layouts {
		if err := g.writeMethods(l); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
	}

	return g.formatFile(pkg.Name(), pkg.Name(), "berth/internal/codec/wire", "github.com/tinylib/msgp/msgp")
}

// List returns a Go file of the test package pkg with a variable all, which has a pointer to a new value of
// each exported struct of the folders below root. The package in folder x is imported as berth/x.
func List(root string, folders []string, pkg string) ([]byte, error) {
	g := &generator{}
	var imports []string
	g.printf("\nvar all = []any{\n")
	for _, folder := range folders {
		source, err := loadPackage(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}

		imports = append(imports, "berth/"+folder)
		for _, name := range source.Scope().Names() {
			_, ok := exportedStruct(source.Scope().Lookup(name))
			if ok {
				g.printf("new(%s.%s),\n", source.Name(), name)
			}
		}
	}

	g.printf("}\n")
	return g.formatFile("structs", pkg, imports...)
}

// exportedStruct returns the type that an object declares, if it is a struct that may go over a wire.
func exportedStruct(o types.Object) (*types.Named, bool) {
	name, ok := o.(*types.TypeName)
	if !ok ||
		!name.Exported() || name.IsAlias() {
		return nil, false
	}
	named, ok := name.Type().(*types.Named)
	if !ok || named.TypeParams().Len() > 0 {
		return nil, false
	}
	_, ok = named.Underlying().(*types.Struct)
	return named, ok
}

// loadPackage reads the types of the package in a folder. It ignores the bodies of functions, and of other
// packages it knows only time. A type that it does not know is invalid.
func loadPackage(dir string) (*types.Package, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}

	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") ||
			filepath.Base(path) == File {
			continue
		}

		file, err := parser.ParseFile(fset, path, nil,
			parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}

		files = append(files, file)
	}

	if len(files) == 0 {
		return nil, fmt.Errorf("no Go files in %s: %w", dir, os.ErrNotExist)
	}

	lenient := types.Config{
		IgnoreFuncBodies: true,
		Importer:         onlyTime{},
		Error:            func(error) {},
	}

	pkg, _ := lenient.Check(files[0].Name.Name, fset, files, nil)
	return pkg, nil
}

// onlyTime imports time with its two types. Every other package is empty.
type onlyTime struct{}

func (onlyTime) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, path[strings.LastIndex(path, "/")+1:])
	if path == "time" {
		declareType(pkg, "Duration", types.Typ[types.Int64])
		declareType(pkg, "Time", types.NewStruct(nil, nil))
	}
	pkg.MarkComplete()
	return pkg, nil
}

func declareType(pkg *types.Package, name string, underlying types.Type) {
	o := types.NewTypeName(token.NoPos, pkg, name, nil)
	types.NewNamed(o, underlying, nil)
	pkg.Scope().Insert(o)
}

// generator writes methods, one struct after another.
type generator struct {
	pkg  *types.Package
	hot  map[types.Type]bool // the structs that get methods
	body bytes.Buffer
}

func (g *generator) printf(format string, args ...any) {
	fmt.Fprintf(&g.body, format, args...)
}

// formatFile returns the body under the head of a file of package name, which was made from package source.
func (g *generator) formatFile(source, name string, imports ...string) ([]byte, error) {
	var b bytes.Buffer
	const head = "// Code generated by codecgen from the source of package %s; DO NOT EDIT.\n\npackage %s\n\n"
	fmt.Fprintf(&b, head+"import (\n",
		source, name)
	for _, path := range imports {
		fmt.Fprintf(&b, "%q\n", path)
	}
	b.WriteString(")\n")
	b.Write(g.body.Bytes())
	file, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("the output is no Go: %w", err)
	}
	return file, nil
}
