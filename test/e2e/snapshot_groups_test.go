package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// Both volumes that are made from a group have the data of its moment, and not what was written after it.
func TestSnapshotGroup_IsRestored(t *testing.T) {
	t.Parallel()
	a := newAgent(t, "solo", "-server", "-client", "-bootstrap-expect", "1")
	a.start()
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	if out := a.must("plugin", "status", "hostpath"); !strings.Contains(out, "group-snapshot") {
		t.Errorf("the plugin takes no groups:\n%s", out)
	}

	const write = "head -c 1048576 /dev/urandom > /data/f; sync"
	sums := map[string]string{}
	for _, id := range []string{"data", "log"} {
		a.must("volume", "create", a.snapshotVolume(id, `capacity_min = "32MiB"`))
		sums[id] = a.sumOf(id, write)
	}
	a.must("volume", "snapshot", "group", "create", "before", "log", "data")
	a.must("volume", "snapshot", "group", "create", "before", "data", "log") // finds the same one
	if n := strings.Count(a.must("volume", "snapshot", "list"), "before-"); n != 2 {
		t.Errorf("the list has %d members", n)
	}
	a.mustFail(structs.KindPrecondition.ExitCode(), []string{"volume snapshot group delete before"},
		"volume", "snapshot", "delete", "before-data")

	for id, sum := range sums {
		if second := a.sumOf(id, write); second == sum {
			t.Fatalf("two writes have the same sum %s", sum)
		}
		restored := "restored-" + id
		a.must("volume", "create", a.snapshotVolume(restored, fmt.Sprintf("snapshot = %q", "before-"+id)))
		if got := a.sumOf(restored, "true"); got != sum {
			t.Errorf("the restored volume of %s has the sum %s, want %s", id, got, sum)
		}
	}

	a.must("volume", "snapshot", "group", "delete", "before")
	out := a.must("volume", "snapshot", "list", "-plugin", "hostpath") + a.must("volume", "snapshot", "list")
	if strings.Contains(out, "before") {
		t.Errorf("left\n%s", out)
	}
	for _, id := range []string{"data", "log", "restored-data", "restored-log"} {
		a.must("volume", "delete", id)
	}
	a.must("job", "stop", "-purge", "hostpath")
}
