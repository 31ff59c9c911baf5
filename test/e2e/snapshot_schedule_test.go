package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A schedule takes a snapshot in each minute, over the loss of a leader, and keeps the newest one. The plugin
// has no other.
func TestSnapshotSchedule_GoesOnUnderTheNextLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	leader, followers := c.leader()
	a := followers[0]
	a.must("job", "run", example(t, "hostpath.hcl"))
	a.healthyNodes("hostpath", 1)
	a.must("volume", "create", a.snapshotVolume("data", `capacity_min = "32MiB"`))
	a.must("volume", "snapshot", "schedule", "apply", a.writeFile("schedule.hcl", `
name   = "minutely"
volume = "data"
cron   = ["* * * * *"]
keep   = 1
`))

	first := a.awaitSnapshotAfter("")
	leader.kill()
	second := a.awaitSnapshotAfter(first)
	a.must("volume", "snapshot", "schedule", "pause", "minutely")
	eventually(t, "the plugin has the kept snapshot alone", func() error {
		atPlugin := a.scheduledIn("-plugin", "hostpath")
		known := a.scheduledIn()
		if len(known) != 1 || known[0] < second || !slices.Equal(atPlugin, known) {
			return fmt.Errorf("the plugin has %v, and the servers have %v", atPlugin, known)
		}
		return nil
	})

	for _, name := range a.scheduledIn() {
		a.must("volume", "snapshot", "delete", name)
	}
	a.must("volume", "snapshot", "schedule", "delete", "minutely")
	a.mustEventually("volume", "delete", "data")
	a.must("job", "stop", "-purge", "hostpath")
}

// awaitSnapshotAfter waits for a ready snapshot of the schedule whose name is after another one.
func (a *agent) awaitSnapshotAfter(before string) (name string) {
	a.t.Helper()
	eventually(a.t, "the schedule takes a snapshot after "+before, func() error {
		out, err := a.run("volume", "snapshot", "list")
		for _, line := range strings.Split(out, "\n") {
			fields := strings.Fields(line)
			if len(fields) > 3 && fields[0] > before && fields[3] == "ready" {
				name = fields[0]
				return nil
			}
		}
		return fmt.Errorf("the list is\n%s: %v", out, err)
	})
	return name
}

// scheduledIn returns the names in a list of snapshots that are those of the schedule.
func (a *agent) scheduledIn(arguments ...string) (names []string) {
	a.t.Helper()
	out, err := a.run(append([]string{"volume", "snapshot", "list"}, arguments...)...)
	if err != nil {
		return nil
	}
	for _, word := range strings.Fields(out) {
		if strings.HasPrefix(word, "minutely-") {
			names = append(names, strings.TrimSuffix(word, ","))
		}
	}
	return names
}
