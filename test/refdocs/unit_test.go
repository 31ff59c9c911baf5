package refdocs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/client/membership/leaving"
)

// TestUnitFile_StopsTheAgentAlone holds what pages say of the unit file: a stop of it leaves the tasks, and
// systemd waits for the longest drain of a node that sets no deadline.
func TestUnitFile_StopsTheAgentAlone(t *testing.T) {
	lines := strings.Split(readFile(t, "../../packaging/systemd/berth.service"), "\n")
	for _, want := range []string{"KillMode=process", "KillSignal=SIGTERM", "RequiresMountsFor=/var/lib/berth"} {
		if !slices.Contains(lines, want) {
			t.Errorf("packaging/systemd/berth.service has no line %q", want)
		}
	}

	longest := leaving.DefaultDeadline + leaving.StopPatience
	var limits []time.Duration
	for _, line := range lines {
		value, is := strings.CutPrefix(line, "TimeoutStopSec=")
		if !is {
			continue
		}
		limit, err := time.ParseDuration(strings.TrimSuffix(value, "in"))
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, limit)
	}
	if len(limits) != 1 || limits[0] <= longest {
		t.Errorf("TimeoutStopSec of packaging/systemd/berth.service is %v; want one of more than %s", limits, longest)
	}
}
