package refdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	protoRPC = regexp.MustCompile(`(?m)^ *rpc ([A-Za-z]+)`)
	rpcRow   = regexp.MustCompile(`(?m)^\| ([A-Z][A-Za-z]+) \| (yes|no: [^|]+) \| ([^|]*)\|$`)
	goMethod = regexp.MustCompile(`(?m)^func \([^)]*\) ([A-Z][A-Za-z]+)\(`)
)

// The plugins with which the page says that the tests run an RPC.
const (
	shownByHostpath   = "hostpath"
	shownByDriver     = "csi-driver-host-path"
	shownByMock       = "mock of Kubernetes"
	shownByScriptable = "scriptable alone"
)

// TestCSIRPCs_SayWhichPluginsShowThem compares docs/reference/csi-rpcs.md with the RPCs of the specification,
// the calls of package csi and the methods of the shipped driver.
func TestCSIRPCs_SayWhichPluginsShowThem(t *testing.T) {
	root := filepath.Join("..", "..")
	var specified []string
	for _, m := range protoRPC.FindAllStringSubmatch(readFile(t, filepath.Join(specDir(t), "csi.proto")), -1) {
		specified = append(specified, m[1])
	}
	calls := rpcsCalled(t, filepath.Join(root, "csi"))
	shipped := methodsBelow(t, filepath.Join(root, "plugins"))

	var listed []string
	page := readFile(t, filepath.Join(root, "docs", "reference", "csi-rpcs.md"))
	for _, row := range rpcRow.FindAllStringSubmatch(page, -1) {
		rpc := row[1]
		listed = append(listed, rpc)
		if calls[rpc] != (row[2] == "yes") {
			t.Errorf("%s: the page says of its calls %q, package csi has %v", rpc, row[2], calls[rpc])
		}
		var by []string
		if text := strings.TrimSpace(row[3]); text != "" {
			by = strings.Split(text, ", ")
		}
		if calls[rpc] != (len(by) > 0) {
			t.Errorf("%s: the page says that it is shown with %q", rpc, by)
		}
		if calls[rpc] && shipped[rpc] != slices.Contains(by, shownByHostpath) {
			t.Errorf("%s: the shipped driver has it: %v, the page says %q", rpc, shipped[rpc], by)
		}
		checkShownBy(t, rpc, by)
	}
	if !slices.Equal(listed, specified) {
		t.Errorf("the page has the rows\n%q, the specification has\n%q", listed, specified)
	}
}

// checkShownBy reports a plugin that is unknown, and the word alone beside another plugin.
func checkShownBy(t *testing.T, rpc string, by []string) {
	t.Helper()
	for _, plugin := range by {
		switch plugin {
		case shownByHostpath, shownByDriver, shownByMock:
		case shownByScriptable:
			if len(by) > 1 {
				t.Errorf("%s is shown with the scriptable plugin alone, and with %q", rpc, by)
			}
		default:
			t.Errorf("%s: the page does not introduce the plugin %q", rpc, plugin)
		}
	}
}

// methodsBelow returns the names of the methods in the files of a directory and those below it.
func methodsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	methods := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range goMethod.FindAllStringSubmatch(readFile(t, path), -1) {
			methods[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return methods
}
