package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agentWithHostVolume starts an agent that offers a directory under the name "data".
func agentWithHostVolume(t *testing.T) (a *agent, dir string) {
	t.Helper()
	a = newAgent(t, "one", "-server", "-client")
	dir = filepath.Join(a.dir, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a.args = append(a.args, "-config", a.writeFile("volumes.hcl", fmt.Sprintf(`
client {
  host_volume "data" {
    path = %q
  }
}
`, dir)))
	a.start()
	return a, dir
}

// The second run of the example finds the data of the first.
func TestHostVolume_ExampleKeepsItsData(t *testing.T) {
	t.Parallel()
	a, dir := agentWithHostVolume(t)
	if out := a.must("node", "status", "-self"); !strings.Contains(out, dir) {
		t.Errorf("the status of the node does not show its volume:\n%s", out)
	}
	for run := range 2 {
		a.must("job", "run", "-detach", example(t, "host-directory.hcl"))
		alloc := a.awaitRunning("host-directory", 1)[0].ID
		a.awaitOutput(alloc, "started at ")
		kept, err := os.ReadFile(filepath.Join(dir, "log"))
		if n := strings.Count(string(kept), "started at "); err != nil || n != run+1 {
			t.Errorf("run %d: the directory has %q, %v", run, kept, err)
		}
		if out := a.must("alloc", "status", alloc); !strings.Contains(out, "single-node-single-writer") {
			t.Errorf("the status of the allocation does not show its volume:\n%s", out)
		}
		a.must("job", "stop", "-purge", "host-directory")
	}
}
