package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

// The tests share what they read: each file is parsed once, and each list is made once.
var (
	files  = token.NewFileSet() // of all parsed files
	parsed = map[string]*ast.File{}
)

// sources returns all Go files of the repository but generated ones: production code, tests, and the modules
// of their own, which neither `go list` nor the linters read.
func sources(t *testing.T) []string {
	t.Helper()
	paths, err := findSources()
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

var findSources = sync.OnceValues(func() (paths []string, _ error) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".go" && !generated(path) {
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
})

// generated reports whether a program writes a file. Such a file has no readers.
func generated(path string) bool {
	for _, end := range []string{"_gen.go", "_gen_test.go", ".pb.go", "_templ.go"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// parseFile returns a file with its positions in files. Its readers do not change it.
func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	if f := parsed[path]; f != nil {
		return f
	}
	f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	parsed[path] = f
	return f
}

// TestSources_AreOfAllModules: a module below the root is read as the root's own packages are.
func TestSources_AreOfAllModules(t *testing.T) {
	read := map[string]bool{}
	for _, path := range sources(t) {
		read[filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))] = true
	}
	for path, want := range map[string]bool{
		"cmd/berth/main.go":                       true,
		"internal/archtest/sources_test.go":       true,
		"convert/cmd/berth-convert/main.go":       true,
		"bench/peer/cmd/compare/main.go":          true,
		"bench/peer/statebench/meter_test.go":     true,
		"test/interop/agent_test.go":              true,
		"structs/codec_gen.go":                    false,
		"internal/codec/all_gen_test.go":          false,
		"client/drivers/protocol/base/base.pb.go": false,
		"ui/pages/frame_templ.go":                 false,
	} {
		if read[path] != want {
			t.Errorf("%s: read %t, want %t", path, read[path], want)
		}
	}
}
