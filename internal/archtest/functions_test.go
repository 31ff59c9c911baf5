package archtest

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// The most that a function of the product may have.
const (
	maxFunctionLines = 60
	maxParameters    = 5
)

// lists are the functions that are one list or table.
var lists = []string{"endpoints.Endpoints.List"}

// givenSignatures are the functions whose parameters a library or the interface of RPC callers fixes.
var givenSignatures = []string{
	"csi.Client.intercept",              // grpc.UnaryClientInterceptor
	"server/raftfiles.snapshots.Create", // raft.SnapshotStore
}

// TestFunctions_AreSmall holds the sizes of the product's functions, and that each exception is needed.
func TestFunctions_AreSmall(t *testing.T) {
	long := map[string]bool{}
	wide := map[string]bool{}
	eachDecl(t, func(name string, d ast.Decl) {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			return
		}
		lines := files.Position(f.End()).Line - files.Position(f.Pos()).Line + 1
		long[name] = long[name] || lines > maxFunctionLines
		wide[name] = wide[name] || f.Type.Params.NumFields() > maxParameters
	})
	checkExceptions(t, "more than 60 lines", long, lists)
	checkExceptions(t, "more than five parameters", wide, givenSignatures)
}

// eachDecl calls visit for each declaration of the product. The name is that of the package with that of the
// function, or with "var" for another declaration.
func eachDecl(t *testing.T, visit func(name string, d ast.Decl)) {
	t.Helper()
	for _, path := range sources(t) {
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), root+string(filepath.Separator)))
		if !isProduct(dir, path) {
			continue
		}
		for _, d := range parseFile(t, path).Decls {
			name := dir + ".var"
			if f, ok := d.(*ast.FuncDecl); ok {
				name = dir + "." + receiverOf(f) + f.Name.Name
			}
			visit(name, d)
		}
	}
}

// receiverOf returns "Type." for a method, "" for a function.
func receiverOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	return strings.TrimPrefix(types.ExprString(f.Recv.List[0].Type), "*") + "."
}

// isProduct reports whether a file is neither of tests, nor of benchmarks, nor of the tools of developers.
func isProduct(dir, path string) bool {
	for name := range strings.SplitSeq(dir, "/") {
		if strings.Contains(name, "bench") || strings.HasPrefix(name, "test") || strings.HasSuffix(name, "test") ||
			name == "tools" {
			return false
		}
	}
	return !strings.HasSuffix(path, "_test.go")
}

func checkExceptions(t *testing.T, fault string, found map[string]bool, exceptions []string) {
	t.Helper()
	for _, name := range exceptions {
		if !found[name] {
			t.Errorf("%s does not have %s: it needs no exception", name, fault)
		}
		delete(found, name)
	}
	for name, faulty := range found {
		if faulty {
			t.Errorf("%s has %s", name, fault)
		}
	}
}

// maxTestLines is the most that a function of a test file may have outside of tables.
const maxTestLines = 80

// TestTestFunctions_AreSmall holds the lines of the functions of tests. The lines of composite literals do
// not count: tables may be long.
func TestTestFunctions_AreSmall(t *testing.T) {
	long := map[string]int{}
	for _, path := range sources(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), root+string(filepath.Separator)))
		for _, d := range parseFile(t, path).Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Body != nil {
				long[dir+"."+receiverOf(f)+f.Name.Name] = linesOutsideTables(f)
			}
		}
	}
	checkBounds(t, "lines outside of tables", long, maxTestLines, longTests)
}

// longTests are the functions of tests with more lines.
var longTests = map[string]bound{
	"scheduler.randomCluster.changeAnything":                        {106, "a case a change"},
	"server/control.TestLoops_TakeAJobFromPlacementToDeletedVolume": {81, "one story"},
	"test/e2e.TestConsul_HasTheServicesOfJobs":                      {88, "one story"},
	"test/e2e.TestPluginHalves_RunAsTwoJobs":                        {81, "one story"},
}

// linesOutsideTables counts the lines of a function without those of its composite literals.
func linesOutsideTables(f *ast.FuncDecl) int {
	line := func(p token.Pos) int { return files.Position(p).Line }
	lines := line(f.End()) - line(f.Pos()) + 1
	ast.Inspect(f.Body, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if ok {
			lines -= line(table.End()) - line(table.Pos())
		}
		return !ok
	})
	return lines
}
