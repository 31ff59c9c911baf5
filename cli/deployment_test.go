package cli

import (
	"testing"
	"time"

	"berth/cli/clitest"
	"berth/structs"
)

// The deadline of a group is shown while the group may miss it.
func TestProgressUntil_IsADeadlineThatCounts(t *testing.T) {
	type group = structs.DeploymentState
	for name, c := range map[string]struct {
		group   group
		healthy int
		shown   bool
	}{
		"it is not healthy yet":       {group{DesiredTotal: 2, HealthyAllocs: 1}, 0, true},
		"all are healthy":             {group{DesiredTotal: 2, HealthyAllocs: 2}, 0, false},
		"its canary is not healthy":   {group{DesiredTotal: 2, DesiredCanaries: 1}, 0, true},
		"its canary is, and it waits": {group{DesiredTotal: 2, DesiredCanaries: 1}, 1, false},
	} {
		c.group.RequireProgressBy = clitest.Today.Add(time.Minute)
		d := &structs.Deployment{Status: structs.DeploymentRunning}
		if got := progressUntil(d, &c.group, c.healthy); (got != "") != c.shown {
			t.Errorf("%s: the deadline is %q", name, got)
		}
	}
}
