package archtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// layers lists the layers, lowest first. A package imports only packages of lower lines, and those
// below its own entry. The longest entry that fits a package counts.
//
// internal/codec is below structs, because the generated codecs of structs call it. server/nodeconn and
// server/clock are below endpoints, because procedures and leader loops both call nodes and read the clock.
// test/kit is beside internal and test/oneserver below endpoints, because the packages with the fakes of an
// area use them.
var layers = [][]string{
	{"internal/codec"},
	{"structs"},
	{"internal", "test/kit"},
	{"acl", "state", "rpc", "csi", "jobspec", "client/drivers/protocol"},
	{"consul", "vault"},
	{"fsm", "scheduler", "client", "api", "plugins", "server/nodeconn", "server/authority", "server/clock"},
	{"test/oneserver"},
	{"endpoints", "cli", "convert"},
	{"server", "ui"},
	{"agent"},
	{"cmd", "convert/cmd", "bench", "packaging"},
	{"test", "tools"},
}

// onlyIn has the packages of berth that may import a library directly.
var onlyIn = map[string][]string{
	"github.com/hashicorp/go-memdb": {"internal/mvcc"},
	"google.golang.org/grpc": {"csi", "plugins", "client/drivers/protocol", "client/drivers/catalog",
		"client/drivers/drivertest", "client/drivers/external", "client/mesh/services", "test"},
	"go.etcd.io/bbolt":                {"client/store"},
	"github.com/hashicorp/raft-wal":   {"server"},
	"github.com/hashicorp/consul/api": {"consul", "server/consulacl", "test"},
	"github.com/hashicorp/serf/serf":  {"server"},
	"github.com/shirou/gopsutil/v4":   {"client/machine"},
	"github.com/google/cel-go/cel":    {"internal/admit"},
	"github.com/a-h/templ":            {"ui"},
	// A program that executes a template of it keeps each method of each type (ADR 106): package ui/pages has
	// components instead.
	"html/template": {},

	"github.com/compose-spec/compose-go/v2": {"convert/compose"},
}

// maxLines is the most that a file may have.
const maxLines = 600

type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	list, err := listPackages()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return list
}

// listPackages lists the packages of the product: those of the root, and those of the converter, which is a
// module of its own.
var listPackages = sync.OnceValues(func() (list []pkg, _ error) {
	for _, module := range []string{root, root + "/convert"} {
		cmd := exec.Command("go", "list", "-C", module, "-json=ImportPath,Dir,Doc,GoFiles,Imports", "./...")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module, err)
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, p)
		}
	}
	return list, nil
})

// layerOf returns the number of a package's line in the list of layers, and the entry that put it there.
func layerOf(path string) (number int, entry string) {
	rel, ours := strings.CutPrefix(path, "berth/")
	if !ours {
		return -1, ""
	}
	number = -2
	for i, l := range layers {
		for _, name := range l {
			if len(name) > len(entry) && within(rel, []string{name}) {
				number = i
				entry = name
			}
		}
	}
	return number, entry
}

func TestImports_GoDownwards(t *testing.T) {
	for _, p := range packages(t) {
		from, top := layerOf(p.ImportPath)
		if from == -2 {
			t.Errorf("%s is in no layer: add it to the list of layers", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			to, other := layerOf(imp)
			if to < 0 || to < from || other == top {
				continue
			}
			t.Errorf("%s (layer %d) imports %s (layer %d): imports only go downwards",
				p.ImportPath, from+1, imp, to+1)
		}
	}
}

func TestLibraries_HaveFixedPlaces(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			for library, allowed := range onlyIn {
				if imp != library && !strings.HasPrefix(imp, library+"/") {
					continue
				}
				if !within(strings.TrimPrefix(p.ImportPath, "berth/"), allowed) {
					t.Errorf("%s imports %s, which only %v may import", p.ImportPath, imp, allowed)
				}
			}
		}
	}
}

func within(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, f+"/") {
			return true
		}
	}
	return false
}

func TestPackages_HaveAPurpose(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && len(p.Doc) < 40 {
			t.Errorf("%s has no package comment that says what it is for", p.ImportPath)
		}
	}
}

func TestFiles_AreSmall(t *testing.T) {
	for _, path := range sources(t) {
		if n := countLines(t, path); n > maxLines {
			t.Errorf("%s has %d lines; split it by noun at %d", path, n, maxLines)
		}
	}
}

func countLines(t *testing.T, path string) (n int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		n++
	}
	return n
}
