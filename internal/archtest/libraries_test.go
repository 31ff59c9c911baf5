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
	cmd := exec.Command("go", "list", "-deps", "berth/cmd/berth")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	for _, library := range fixed {
		if !slices.Contains(deps, library) {
			t.Errorf("cmd/berth does not import %s, which is fixed", library)
		}
	}
}
