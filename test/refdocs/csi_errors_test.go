package refdocs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	madeRPC     = regexp.MustCompile(`c\.(?:identity|controller|node|group)\.([A-Za-z]+)\(ctx`)
	pageSection = regexp.MustCompile(`(?m)^## .*$`)
	sectionRPC  = regexp.MustCompile(`([A-Za-z]+) \(L([0-9]+)\)`)
	specErrors  = regexp.MustCompile("^#+ ([A-Za-z]+) Errors$")
	specRow     = regexp.MustCompile(`^\|.*?\| ([0-9]+ [A-Z_]+) \|`)
	codeFile    = regexp.MustCompile("`((?:csi|client|server|state|structs|endpoints)/[a-z_/]+\\.go)`")
)

// TestCSIErrors_HasEachRPCAndCode compares docs/storage/driver-errors.md with the client of package csi and
// the tables of the specification: each RPC that berth can call has a section, which gives the line of the
// RPC's table and names each code of it. Each named file exists.
func TestCSIErrors_HasEachRPCAndCode(t *testing.T) {
	root := filepath.Join("..", "..")
	page := readFile(t, filepath.Join(root, "docs", "storage", "driver-errors.md"))
	tables := specTables(t)
	sections := sectionsOf(page)
	calls := rpcsCalled(t, filepath.Join(root, "csi"))
	for rpc := range calls {
		if sections[rpc] == "" {
			t.Errorf("the page has no section of %s, which package csi calls", rpc)
		}
	}
	for rpc, section := range sections {
		table := tables[rpc]
		if !calls[rpc] || table.line == 0 {
			t.Errorf("the page has a section of %s, which package csi does not call, or the specification does not have",
				rpc)
		}
		if !strings.Contains(section, rpc+" (L"+strconv.Itoa(table.line)+")") {
			t.Errorf("the table of %s is at line %d of the specification, the page says another", rpc, table.line)
		}
		for _, code := range table.codes {
			if !strings.Contains(section, code) {
				t.Errorf("the section of %s does not name %s", rpc, code)
			}
		}
	}
	for _, m := range codeFile.FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("the page names a file that is not there: %v", err)
		}
	}
}

// rpcsCalled finds the RPCs for which the client of package csi has code.
func rpcsCalled(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	calls := map[string]bool{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, m := range madeRPC.FindAllStringSubmatch(readFile(t, f), -1) {
			calls[m[1]] = true
		}
	}
	return calls
}

// sectionsOf returns the text of the section, with its heading, for each RPC that a heading names.
func sectionsOf(page string) map[string]string {
	sections := map[string]string{}
	at := pageSection.FindAllStringIndex(page, -1)
	for i, from := range at {
		end := len(page)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		for _, m := range sectionRPC.FindAllStringSubmatch(page[from[0]:from[1]], -1) {
			sections[m[1]] = page[from[0]:end]
		}
	}
	return sections
}

// specTable is the table of errors of one RPC.
type specTable struct {
	line  int // the line of its heading
	codes []string
}

// specTables reads the tables of errors from the text of the specification.
func specTables(t *testing.T) map[string]specTable {
	t.Helper()
	tables := map[string]specTable{}
	rpc := ""
	for i, line := range strings.Split(readFile(t, filepath.Join(specDir(t), "spec.md")), "\n") {
		if strings.HasPrefix(line, "#") {
			rpc = ""
		}
		if m := specErrors.FindStringSubmatch(line); m != nil {
			rpc = m[1]
			tables[rpc] = specTable{line: i + 1}
		}
		if m := specRow.FindStringSubmatch(line); m != nil && rpc != "" {
			table := tables[rpc]
			table.codes = append(table.codes, m[1])
			tables[rpc] = table
		}
	}
	return tables
}

// specDir is the directory of the specification in the cache of modules.
func specDir(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/container-storage-interface/spec").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
