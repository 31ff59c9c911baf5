package archtest

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// fixed are the libraries that the owner of the project has chosen (ADR 6).
var fixed = []string{
	"github.com/hashicorp/go-hclog",
	"github.com/hashicorp/go-memdb",
	"github.com/hashicorp/go-msgpack/v2/codec",
	"github.com/hashicorp/net-rpc-msgpackrpc/v2",
	"github.com/hashicorp/raft",
}

// TestFixedLibraries_AreInTheProgram: the program is built with each of them, not the tests alone.
func TestFixedLibraries_AreInTheProgram(t *testing.T) {
	deps := depsOf(t, "berth/cmd/berth")
	for _, library := range fixed {
		if !slices.Contains(deps, library) {
			t.Errorf("cmd/berth does not import %s, which is fixed", library)
		}
	}
}

// TestConverter_IsApart: the module of the agent, its tests included, has nothing of the one that reads files
// of other systems.
func TestConverter_IsApart(t *testing.T) {
	text, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"berth/convert", "github.com/compose-spec/"} {
		if strings.Contains(string(text), module) {
			t.Errorf("go.mod has %s, which is for convert/go.mod alone", module)
		}
	}
}

// TestProgram_HasNoTests: the helpers of tests are below each package that may use them, and in no program.
func TestProgram_HasNoTests(t *testing.T) {
	for _, path := range depsOf(t, "berth/cmd/berth") {
		if within(path, []string{"berth/test"}) {
			t.Errorf("cmd/berth imports %s, which is for tests alone", path)
		}
	}
}

// TestSupervisor_HasNoLargePackages: each task starts two processes of it, and the start of a process takes
// time for each of its packages.
func TestSupervisor_HasNoLargePackages(t *testing.T) {
	deps := depsOf(t, "berth/cmd/berth-executor")
	for _, large := range []string{
		"berth/internal/codec", "crypto/tls", "encoding/gob", "net/http", "net/rpc", "html/template",
	} {
		if slices.Contains(deps, large) {
			t.Errorf("cmd/berth-executor imports %s", large)
		}
	}
}

// depsOf lists the packages of a program.
func depsOf(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", program)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}
