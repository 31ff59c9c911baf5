package sandbox

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"berth/client/drivers/cgroups"
	"berth/test/kit"
)

// TestStart_RejectsAMissingFilter: an agent of an older version orders a filter, and gives none.
func TestStart_RejectsAMissingFilter(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the program gives up capabilities")
	}
	p := &Program{}
	err := json.Unmarshal([]byte(`{"Driver":"exec","Command":"/bin/true","Restrict":true,"Seccomp":true}`), p)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := (&cgroups.Group{}).Entry()
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	pid, err := p.Start(os.Stdout, os.Stderr, entry)
	if err == nil {
		t.Fatalf("process %d was started without a filter", pid)
	}
	if !strings.Contains(err.Error(), "restart the agent") {
		t.Errorf("the error does not name the remedy: %v", err)
	}
}
