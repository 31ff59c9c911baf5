package job

import (
	"io"
	"strings"
	"testing"
	"time"

	"berth/cli/clitest"
	"berth/cli/command"
	"berth/cli/watch"
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

// TestWatch_EndsWhenTheCanariesAreHealthy checks that a watch advises a promotion only if it would be
// accepted. Other allocations of the version, ended canaries and those of other groups do not count.
func TestWatch_EndsWhenTheCanariesAreHealthy(t *testing.T) {
	other := clitest.DeployedAlloc("app", false, true)
	ended := clitest.DeployedAlloc("app", true, true)
	ended.ClientStatus = structs.AllocFailed
	stopped := clitest.DeployedAlloc("app", true, true)
	stopped.DesiredStatus = structs.AllocDesiredStop
	for name, c := range map[string]struct {
		alloc *structs.AllocListStub
		done  bool
	}{
		"a healthy canary":     {clitest.DeployedAlloc("app", true, true), true},
		"an unhealthy canary":  {clitest.DeployedAlloc("app", true, false), false},
		"a healthy allocation": {other, false},
		"an ended canary":      {ended, false},
		"a stopped canary":     {stopped, false},
		"one of another group": {clitest.DeployedAlloc("db", true, true), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := watch.New(&command.Call{Stdio: command.Stdio{Out: io.Discard}, Command: &command.Command{}})
			done, err := endOfDeployment(w, clitest.WebDeployment(), []*structs.AllocListStub{c.alloc})
			if done != c.done || err != nil {
				t.Errorf("the watch ends: %v (%v), want %v", done, err, c.done)
			}
		})
	}
}

// TestWatch_AdvisesCommandsWithTheNamespace checks that the advice on a deployment finds it: it is in the
// namespace of its job, which the user may have given in the file of the job.
func TestWatch_AdvisesCommandsWithTheNamespace(t *testing.T) {
	for status, want := range map[string]string{
		structs.DeploymentRunning: "berth deployment promote -namespace prod d1d1d1d1",
		structs.DeploymentPaused:  "berth deployment resume -namespace prod d1d1d1d1",
	} {
		d := clitest.WebDeployment()
		d.Namespace = "prod"
		d.Status = status
		var out strings.Builder
		w := watch.New(&command.Call{Stdio: command.Stdio{Out: &out}, Command: &command.Command{}})
		done, err := endOfDeployment(w, d, []*structs.AllocListStub{clitest.DeployedAlloc("app", true, true)})
		if err != nil || !done || !strings.Contains(out.String(), want) {
			t.Errorf("%s: the watch ends: %v (%v), and says %q, want %q in it", status, done, err,
				out.String(), want)
		}
	}
}
