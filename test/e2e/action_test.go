package e2e

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// withAction adds an action to the task of a job file of jobFile.
func withAction(text, name, command string, args ...string) string {
	action := fmt.Sprintf("      action %q {\n        command = %q\n        args    = [", name, command)
	for _, arg := range args {
		action += fmt.Sprintf("%q, ", arg)
	}
	const task = "task \"t\" {\n"
	return strings.Replace(text, task, task+action+"]\n      }\n", 1)
}

// TestAction_RunsThroughEachAgent runs an action through a server and through the node. A new version with
// another action leaves the allocation running, and the action is there at once.
func TestAction_RunsThroughEachAgent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	server := c.servers[0]
	job := jobFile{name: "acts", script: "echo of the task > /local/file; echo up; exec sleep 100000"}
	show := withAction(job.hcl(), "show", "/bin/sh", "-c",
		"cat ${NOMAD_TASK_DIR}/file; cat; echo beside $0 >&2; exit 7", "${NOMAD_ALLOC_INDEX}")
	server.must("job", "run", server.writeFile("acts.hcl", show))
	alloc := server.awaitRunning("acts", 1)[0].ID
	server.awaitOutput(alloc, "up")
	for _, a := range []*agent{server, c.node} {
		out, err := a.run("job", "action", "-job", "acts", "show")
		if exitCode(err) != 7 || !strings.Contains(fmt.Sprint(out, err), "of the task") ||
			!strings.Contains(err.Error(), "beside 0") {
			t.Errorf("through %s: %q, %v", a.name, out, err)
		}
	}
	list := server.must("job", "actions", "acts")
	if !strings.Contains(list, "show") || !strings.Contains(list, "/bin/sh -c") {
		t.Errorf("the list is %s", list)
	}

	other := withAction(show, "other", "/bin/echo", "another")
	server.must("job", "run", server.writeFile("acts.hcl", other))
	eventually(t, "the allocation has the new action", func() error {
		out, err := server.run("job", "action", "-job", "acts", "other")
		if err == nil && out != "another\n" {
			err = fmt.Errorf("the action writes %q", out)
		}
		return err
	})
	if now := server.awaitRunning("acts", 1)[0].ID; now != alloc {
		t.Errorf("the allocation %s has replaced %s", now, alloc)
	}

	server.mustFail(2, []string{"no action", "t/other, t/show"}, "job", "action", "-job", "acts", "none")
	server.must("job", "stop", "acts")
	server.mustFail(structs.KindConflict.ExitCode(), []string{"an action needs a running task"},
		"job", "action", "-job", "acts", "show")
}
