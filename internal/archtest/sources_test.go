package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../.."

// sources returns all Go files of the repository but generated ones: production code, tests, and the modules
// of their own, which neither `go list` nor the linters read.
func sources(t *testing.T) []string {
	t.Helper()
	var paths []string
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
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// generated reports whether a program writes a file. Such a file has no readers.
func generated(path string) bool {
	for _, end := range []string{"_gen.go", "_gen_test.go", ".pb.go"} {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

func parseFile(t *testing.T, files *token.FileSet, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
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
		"bench/peer/cmd/compare/main.go":          true,
		"bench/peer/statebench/meter_test.go":     true,
		"test/interop/agent_test.go":              true,
		"structs/codec_gen.go":                    false,
		"internal/codec/all_gen_test.go":          false,
		"client/drivers/protocol/base/base.pb.go": false,
	} {
		if read[path] != want {
			t.Errorf("%s: read %t, want %t", path, read[path], want)
		}
	}
}
